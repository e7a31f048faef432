#include <memory>

#include "kernel/template_set.h"
#include "kiln/error.h"
#include "kiln/tuner.h"
#include "tuner/gpu_choice.h"
#include "tuner/lab.h"
#include "tuner/range_tuning.h"
#include "tuner/tuning.h"
#include "tuner/workshop.h"

namespace kiln {

struct Tuner::Impl {
  RuntimeOptions runtime_options;
  TuneOptions options;
  tuner::GpuChoice gpu;
  TemplateSet templates;

  Impl(const RuntimeOptions& runtime, TuneOptions tune)
      : runtime_options(runtime),
        options(std::move(tune)),
        gpu(tuner::choose_gpu(options.gpu)),
        templates(runtime_options.template_folders, runtime_options.include_folders) {
    options.helper = tuner::find_helper(options.helper);
    for (const std::string& name : options.templates) templates.find(name);
  }

  // What `work` makes of the lab's parts; `stopped` when the wait for the GPU was ended.
  template <class Result, class Work>
  Result with_lab(TuneObserver& observer, Result stopped, Work work) const {
    std::unique_ptr<tuner::Lab> lab;
    try {
      lab = std::make_unique<tuner::Lab>(runtime_options, options, gpu, templates, observer);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted) return stopped;
      throw;
    }
    return work(lab->parts());
  }
};

Tuner::Tuner(const RuntimeOptions& runtime_options, TuneOptions options)
    : impl_(std::make_unique<Impl>(runtime_options, std::move(options))) {}

Tuner::~Tuner() = default;

std::vector<TuneResult> Tuner::tune(const std::vector<Problem>& problems, TuneObserver& observer) {
  return impl_->with_lab(observer, std::vector<TuneResult>{}, [&](const tuner::TuningParts& parts) {
    return tuner::run_tuning(parts, impl_->options, problems, observer);
  });
}

RangeResult Tuner::tune_range(const ProblemRange& range, TuneObserver& observer) {
  RangeResult stopped;
  stopped.range = range;
  stopped.failed = true;
  stopped.message = "stopped while it waited for the GPU";
  return impl_->with_lab(observer, stopped, [&](const tuner::TuningParts& parts) {
    return tuner::run_range_tuning(parts, impl_->options, range, observer);
  });
}

}  // namespace kiln
