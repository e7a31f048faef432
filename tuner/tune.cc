#include <memory>
#include <optional>

#include "kernel/template_set.h"
#include "kiln/error.h"
#include "kiln/tuner.h"
#include "tuner/gpu_choice.h"
#include "tuner/tuning.h"
#include "tuner/worker/gpu_lock.h"
#include "tuner/workshop.h"

namespace kiln {

using tuner::GpuChoice;

struct Tuner::Impl {
  RuntimeOptions runtime_options;
  TuneOptions options;
  GpuChoice gpu;
  std::filesystem::path helper;
  TemplateSet templates;

  Impl(const RuntimeOptions& runtime, TuneOptions tune)
      : runtime_options(runtime),
        options(std::move(tune)),
        gpu(tuner::choose_gpu(options.gpu)),
        helper(tuner::find_helper(options.helper)),
        templates(runtime_options.template_folders, runtime_options.include_folders) {
    for (const std::string& name : options.templates) templates.find(name);
  }

  bool predicts() const { return options.predict || !gpu.is_here; }
};

Tuner::Tuner(const RuntimeOptions& runtime_options, TuneOptions options)
    : impl_(std::make_unique<Impl>(runtime_options, std::move(options))) {}

Tuner::~Tuner() = default;

std::vector<TuneResult> Tuner::tune(const std::vector<Problem>& problems, TuneObserver& observer) {
  const std::unique_ptr<Store> store = open_store(tuner::store_options(impl_->runtime_options));
  tuner::PoolCompiler compiler(impl_->helper);
  std::optional<tuner::GpuLock> lock;
  std::optional<tuner::ProcessMeasurer> measurer;
  if (!impl_->predicts()) {
    const std::chrono::milliseconds limit =
        impl_->options.budget.count() > 0 ? impl_->options.budget : std::chrono::minutes(10);
    try {
      lock.emplace(impl_->gpu.device.uuid,
                   tuner::GpuLock::Wait{.limit = limit,
                                        .told = [&](const std::string& message) { observer.warning(message); },
                                        .stop = [&] { return observer.stop_requested(); }});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted) return {};
      throw;
    }
    tuner::WorkerOptions worker;
    worker.helper = impl_->helper;
    worker.gpu_uuid = impl_->gpu.device.uuid;
    worker.template_folders = impl_->runtime_options.template_folders;
    measurer.emplace(std::move(worker));
  }
  const tuner::TuningParts parts{.templates = &impl_->templates,
                                 .store = store.get(),
                                 .compiler = &compiler,
                                 .measurer = measurer ? &*measurer : nullptr,
                                 .device = impl_->gpu.device,
                                 .versions = tuner::current_versions()};
  return tuner::run_tuning(parts, impl_->options, problems, observer);
}

}  // namespace kiln
