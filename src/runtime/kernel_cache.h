// From a configuration to loaded kernels: memory, then the store, then NVRTC. Concurrent requests for one kernel share
// one compile; requests for different kernels never wait for each other. A failed compile is not remembered, so that a
// transient cause heals. Thread-safe.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/library.h"
#include "kernel/template.h"
#include "runtime/store.h"

namespace kiln {

struct LoadedKernels {
  explicit LoadedKernels(std::string_view cubin) : library(cubin) {}
  cuda::Library library;
  std::vector<CUkernel> kernels;  // in the order of the template's launches
};
using LoadedKernelsPtr = std::shared_ptr<const LoadedKernels>;

class KernelCache {
 public:
  KernelCache(Store& store, cuda::DeviceInfo device) : store_(store), device_(std::move(device)) {}

  // Throws Error{compile_failed} with the configuration and the whole log, or {launch_failed} when the driver refuses
  // the cubin.
  LoadedKernelsPtr get(const KernelTemplate& t, const Problem& problem, const Config& config);

 private:
  LoadedKernelsPtr load(const KernelTemplate& t, const Problem& problem, const Config& config,
                        const std::string& stored_key);

  Store& store_;
  const cuda::DeviceInfo device_;
  std::mutex mutex_;
  std::map<std::string, std::shared_future<LoadedKernelsPtr>> loaded_;  // by key
};

// The NVRTC version that names a kernel's key: this process's if loaded, else the one the store remembers, else NVRTC
// is loaded and asked.
std::string nvrtc_version_for_keys(Store& store);

// A compiled unit as it is stored under `key`.
StoredCubin to_stored_cubin(const std::string& key, const KernelTemplate& t, const Config& config,
                            const jit::CompiledUnit& unit);

}  // namespace kiln
