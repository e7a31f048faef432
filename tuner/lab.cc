#include "tuner/lab.h"

namespace kiln::tuner {
namespace {

constexpr std::chrono::milliseconds kLongestWait = std::chrono::minutes(10);

}  // namespace

Lab::Lab(const RuntimeOptions& runtime, const TuneOptions& options, const GpuChoice& gpu, const TemplateSet& templates,
         TuneObserver& observer)
    : store_(open_store(store_options(runtime))), helper_(find_helper(options.helper)), compiler_(helper_) {
  if (!options.predict && gpu.is_here) {
    lock_.emplace(gpu.device.uuid, GpuLock::Wait{.limit = options.budget.count() > 0 ? options.budget : kLongestWait,
                                                 .told = [&](const std::string& message) { observer.warning(message); },
                                                 .stop = [&] { return observer.stop_requested(); }});
    WorkerOptions worker;
    worker.helper = helper_;
    worker.gpu_uuid = gpu.device.uuid;
    worker.template_folders = runtime.template_folders;
    measurer_.emplace(std::move(worker));
  }
  parts_ = {.templates = &templates,
            .store = store_.get(),
            .compiler = &compiler_,
            .measurer = measurer_ ? &*measurer_ : nullptr,
            .device = gpu.device,
            .versions = current_versions(),
            .presets = shipped_decisions()};
}

}  // namespace kiln::tuner
