// Kiln against its peers: the configuration that the lookup ladder answers with, timed in the same rounds as other
// libraries, by the protocol that tuning uses. What `kiln bench` does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "kiln/operation.h"
#include "kiln/options.h"
#include "runtime/store.h"

namespace kiln {

struct BenchOptions {
  std::string gpu;                 // UUID or index; empty: device 0
  std::vector<std::string> peers;  // "cublaslt_default", "cublaslt_best"; see bench_peers()
  bool cold = true;                // rotate buffers over more than the L2 holds; false: one set, warm
  int rounds = 15;                 // batches of at least 2 ms per contestant; at least 5
  std::uint64_t seed = 1;
  std::string only_template;     // empty: the best of all
  std::filesystem::path helper;  // the `kiln` executable; empty: found beside this program
};

struct BenchRow {
  Problem problem;
  Provenance provenance;  // the rung that answered, template and configuration
  std::string template_digest;
  std::optional<Timing> kiln;  // with the relative Frobenius error; exactly one of kiln and failure is set
  std::optional<Failure> failure;
  std::map<std::string, Timing> peers;
  std::map<std::string, std::string> peer_failures;  // why a peer has no timing
  std::vector<std::string> warnings;
  bool foreign_work = false;  // others computed on the GPU: the row is not fit to publish
};

// One row of several timings of the same problem, taken at different times: medians over them, and as spread their
// range over the median. Peers without a time in each of them have none. A failure is the row's. REQUIRES: at least
// one.
BenchRow merge_passes(const std::vector<BenchRow>& passes);

// The peers known for an op, in the order they are listed to people.
std::vector<std::string> bench_peers(const std::string& op);

// Holds the GPU's lock and one worker process for as long as it lives. Not thread-safe.
class Bench {
 public:
  // Throws Error{no_device}, Error{no_driver}, Error{not_found} (no helper), Error{invalid_argument} (an unknown peer).
  Bench(const RuntimeOptions& runtime_options, BenchOptions options);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Missing fields of `problem` take the op's defaults. A kernel that fails is a row with `failure`; a problem that no
  // template accepts is Error{unsupported}.
  BenchRow bench_problem(const Problem& problem);

  const cuda::DeviceInfo& device() const;
  const Versions& versions() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
