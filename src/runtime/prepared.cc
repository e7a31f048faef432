#include "runtime/prepared.h"

#include <ctime>

#include "base/log.h"
#include "cuda/driver.h"
#include "jit/nvrtc.h"
#include "kiln/error.h"
#include "kiln/version.h"

namespace kiln {
namespace {

CUcontext current_context() {
  CUcontext context = nullptr;
  cuda::check(cuda::driver().cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  return context;
}

int current_device() {
  CUdevice device = 0;
  cuda::check(cuda::driver().cuCtxGetDevice(&device), "cuCtxGetDevice");
  return device;
}

}  // namespace

RuntimeCore::RuntimeCore(const RuntimeOptions& runtime_options, int device_ordinal, bool use_current_context)
    : options(runtime_options), templates(runtime_options.template_folders, runtime_options.include_folders) {
  set_log_level(options.log_level);
  const bool has_context = current_context() != nullptr;
  const int ordinal = use_current_context && has_context ? current_device() : device_ordinal;
  device = cuda::device_info(ordinal);
  hardware_class = cuda::hardware_class(device);
  if (!use_current_context || !has_context) primary = std::make_unique<cuda::PrimaryContext>(ordinal);
  store = open_store({.path = options.cache, .read_only = options.read_only});
  lookup = std::make_unique<Lookup>(
      Lookup::Context{.templates = &templates,
                      .store = store.get(),
                      .presets = shipped_presets,
                      .profiles = shipped_gpu_profiles(),
                      .device = device,
                      .versions = {.driver = cuda::driver().version,
                                   .nvrtc = jit::Nvrtc::loaded() ? jit::Nvrtc::instance().version() : std::string(),
                                   .kiln = kVersion}});
  kernels = std::make_unique<KernelCache>(*store, device);
}

PreparedPtr prepare_answer(RuntimeCore& core, const Problem& problem, Answer answer) {
  const KernelTemplate& t = *answer.kernel_template;
  auto prepared = std::make_shared<Prepared>();
  prepared->problem = problem;
  prepared->plan = build_plan(t, t.manifest.launches, problem, answer.config, core.device, EncodeMaps::yes);
  if (!prepared->plan.launches.empty()) {
    prepared->kernels = core.kernels->get(t, problem, answer.config);
    allow_resources(prepared->plan, prepared->kernels->kernels, core.device.ordinal);
  }
  prepared->answer = std::move(answer);
  return prepared;
}

PreparedPtr prepare_problem(RuntimeCore& core, const Problem& problem, const std::string& only_template) {
  Answer answer = core.lookup->find(problem, only_template);
  if (answer.rung != Rung::exact_measured) {
    core.store->record_miss({.hardware_class = core.hardware_class,
                             .problem = problem,
                             .answered_by = to_string(answer.rung),
                             .count = 1,
                             .unix_time = std::time(nullptr)});
  }
  log("runtime")->info("{} answered by {}: {} {}", problem.canonical(), to_string(answer.rung),
                       answer.kernel_template->manifest.name, to_text(answer.config));
  return prepare_answer(core, problem, std::move(answer));
}

void refuse_in_capture(CUstream stream, const std::string& what) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (cuda::driver().cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS) return;
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return;
  throw Error(ErrorCode::invalid_argument,
              what +
                  " is not possible while the stream is being captured; call the operation once, or reserve(), before "
                  "the capture");
}

CUdeviceptr StreamWorkspaces::get(CUstream stream, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  cuda::DeviceBuffer& buffer = buffers_[stream];
  if (buffer.size() < bytes) {
    refuse_in_capture(stream, "allocating a workspace of " + std::to_string(bytes) + " bytes");
    // Work still queued on the stream may use the old buffer: freeing device memory waits for it.
    buffer = cuda::DeviceBuffer(bytes);
  }
  return buffer.get();
}

}  // namespace kiln
