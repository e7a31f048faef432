// Everything an operation shares: the runtime's parts, and how one configuration becomes a launchable plan.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/memory.h"
#include "kernel/launch_plan.h"
#include "kernel/template_set.h"
#include "kiln/operation.h"
#include "kiln/options.h"
#include "runtime/kernel_cache.h"
#include "runtime/lookup.h"

namespace kiln {

// The parts of one Runtime, kept alive by its operations. Thread-safe.
struct RuntimeCore {
  RuntimeOptions options;
  cuda::DeviceInfo device;
  std::string hardware_class;
  std::unique_ptr<cuda::PrimaryContext> primary;  // null when the application brought a context of its own
  TemplateSet templates;
  std::unique_ptr<Store> store;
  std::unique_ptr<Lookup> lookup;
  std::unique_ptr<KernelCache> kernels;

  RuntimeCore(const RuntimeOptions& options, int device_ordinal, bool use_current_context);
};

// A plan with the kernels it launches. Immutable.
struct Prepared {
  Problem problem;
  Answer answer;
  LoadedKernelsPtr kernels;
  LaunchPlan plan;
};
using PreparedPtr = std::shared_ptr<const Prepared>;

// Looks the problem up, loads the kernels, lays out the launch. Records a miss when a lower rung answered.
// `problem` is complete. Throws as Runtime::prepare does.
PreparedPtr prepare_problem(RuntimeCore& core, const Problem& problem, const std::string& only_template);

// The same with an answer already found.
PreparedPtr prepare_answer(RuntimeCore& core, const Problem& problem, Answer answer);

// One device buffer per stream, growing as asked. Thread-safe.
class StreamWorkspaces {
 public:
  // Throws Error{invalid_argument} when it would have to allocate while `stream` is being captured.
  CUdeviceptr get(CUstream stream, std::size_t bytes);

 private:
  std::mutex mutex_;
  std::map<CUstream, cuda::DeviceBuffer> buffers_;
};

// Throws Error{invalid_argument} when `stream` is being captured: `what` cannot be done then.
void refuse_in_capture(CUstream stream, const std::string& what);

}  // namespace kiln
