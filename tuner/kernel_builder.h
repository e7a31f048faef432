// Cubins for candidates: from the store where it has them, else compiled in the pool, ahead of when they are needed,
// and put into the store. One compile per kernel key, however many problems share it. Not thread-safe.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "jit/compile.h"
#include "kernel/template.h"
#include "runtime/store.h"
#include "tuner/candidate.h"

namespace kiln::tuner {

// Where compiles happen: a pool of processes, or a test's imagination.
class Compiler {
 public:
  virtual ~Compiler() = default;
  // As jit::CompilePool::submit: the future never throws.
  virtual std::future<jit::CompileOutcome> submit(jit::CompileRequest request) = 0;
};

struct BuiltKernel {
  KernelCode code;
  std::vector<jit::KernelResources> resources;
  std::vector<std::string> warnings;

  int registers() const;            // of the kernel that uses most
  int spill_bytes() const;          // stores and loads together, over all kernels
  int static_shared_bytes() const;  // of the kernel that uses most
  // Why this build is a bad candidate however fast it may look: spills, serialised wgmma; or empty.
  std::string resource_fault() const;
};

class KernelBuilder {
 public:
  // `nvrtc_version` is part of every key. `compiler` and `store` must outlive it.
  KernelBuilder(Compiler& compiler, Store& store, std::string nvrtc_version, cuda::DeviceInfo device);

  // Starts the compile unless it is stored, running or done.
  void prefetch(const KernelTemplate& t, const Problem& problem, const Config& config);
  // Waits for it. Empty when `stop` said so first. A failure's kind is compile.
  std::optional<std::variant<BuiltKernel, Failure>> get(const KernelTemplate& t, const Problem& problem,
                                                        const Config& config, const std::function<bool()>& stop);
  // The same for a unit of no template: check kernels, and references kept beside their template. The key is made of
  // everything in the request.
  std::optional<std::variant<BuiltKernel, Failure>> get(const jit::CompileRequest& request,
                                                        const std::string& description,
                                                        const std::function<bool()>& stop);
  // Lets go of finished builds that the store has. Call between problems, or a long run keeps every cubin in memory.
  void forget_built();

 private:
  struct Pending {
    std::string description;
    std::future<jit::CompileOutcome> outcome;
    std::optional<std::variant<BuiltKernel, Failure>> built;
    bool is_stored = false;
  };
  Pending& start(const std::string& key, const std::string& description,
                 const std::function<jit::CompileRequest()>& request);
  std::optional<std::variant<BuiltKernel, Failure>> wait(const std::string& key, Pending& pending,
                                                         const std::function<bool()>& stop);
  const std::string& key_of(const KernelTemplate& t, const Problem& problem, const Config& config);

  Compiler& compiler_;
  Store& store_;
  std::string nvrtc_version_;
  cuda::DeviceInfo device_;
  std::map<std::string, Pending> pending_;  // by kernel key
  // By template, problem and configuration: making a key evaluates the whole manifest, and each is asked for several
  // times.
  std::unordered_map<std::string, std::string> keys_;
};

// What a StoredCubin says of its kernels' resources, and back. Unknown or missing text is no resources and no warnings.
std::string resources_to_text(const std::vector<jit::KernelResources>& resources,
                              const std::vector<std::string>& warnings);
void resources_from_text(const std::string& text, BuiltKernel* built);

}  // namespace kiln::tuner
