// What tuning and benchmarking share of the real world: the helper program, the compile pool, the versions.
// Thread-safe unless said otherwise.
#pragma once

#include <filesystem>
#include <future>
#include <memory>

#include "jit/compile_pool.h"
#include "kiln/options.h"
#include "runtime/store.h"
#include "tuner/kernel_builder.h"
#include "tuner/worker/process_measurer.h"

namespace kiln::tuner {

// The `kiln` executable that serves as compile and GPU worker: `wanted` if given, else this program if that is its
// name, else beside this program, in ../bin or on PATH. Throws Error{not_found} naming the places.
std::filesystem::path find_helper(const std::filesystem::path& wanted);

// The versions that results made by this process carry. Loads NVRTC; without a driver, driver is 0.
// Throws Error{not_found} without an NVRTC.
Versions current_versions();

StoreOptions store_options(const RuntimeOptions& options);

// The compile pool, started when first used: a run whose cubins are all stored starts no process.
// Not thread-safe.
class PoolCompiler : public Compiler {
 public:
  explicit PoolCompiler(std::filesystem::path helper) : helper_(std::move(helper)) {}
  std::future<jit::CompileOutcome> submit(jit::CompileRequest request) override;

 private:
  std::filesystem::path helper_;
  std::unique_ptr<jit::CompilePool> pool_;
};

}  // namespace kiln::tuner
