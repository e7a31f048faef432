#include "tuner/tuning.h"

#include <algorithm>
#include <memory>

#include "base/log.h"
#include "kiln/error.h"
#include "tuner/problem_tuning.h"

namespace kiln::tuner {

std::string left_out(const TuneOptions& options, const Manifest& manifest) {
  const auto& names = options.templates;
  const bool named = std::find(names.begin(), names.end(), manifest.name) != names.end();
  if (!names.empty() && !named) return "not one of those asked for";
  if (!named && options.deterministic && !manifest.deterministic)
    return "its results differ from run to run, which must be allowed";
  return {};
}

std::vector<TemplatePtr> searched_templates(const TemplateSet& templates, const Problem& problem,
                                            const cuda::DeviceInfo& device, const TuneOptions& options) {
  std::vector<TemplatePtr> searched;
  for (const TemplatePtr& t : templates.of_op(problem.op)) {
    if (left_out(options, t->manifest).empty() && rejection(*t, problem, device).empty()) searched.push_back(t);
  }
  return searched;
}

StopRule::StopRule(TuneObserver& observer, std::chrono::milliseconds budget) : observer_(&observer) {
  if (budget.count() > 0) end_ = Clock::now() + budget;
}

bool StopRule::stop() const { return observer_->stop_requested() || (end_ && Clock::now() >= *end_); }

std::optional<StopRule::Clock::duration> StopRule::share(std::size_t problems_left) const {
  if (!end_) return std::nullopt;
  const Clock::duration left = std::max(Clock::duration::zero(), *end_ - Clock::now());
  return left / static_cast<Clock::rep>(std::max<std::size_t>(1, problems_left));
}

std::vector<TuneResult> run_tuning(const TuningParts& parts, const TuneOptions& options,
                                   const std::vector<Problem>& problems, TuneObserver& observer) {
  const StopRule stop_rule(observer, options.budget);
  KernelBuilder builder(*parts.compiler, *parts.store, parts.versions.nvrtc, parts.device);
  std::vector<std::unique_ptr<ProblemTuning>> tunings(problems.size());
  const auto prepare = [&](std::size_t index) {
    if (index >= problems.size() || tunings[index] || stop_rule.stop()) return;
    tunings[index] = std::make_unique<ProblemTuning>(parts, options, builder, stop_rule, observer, problems[index]);
    tunings[index]->prepare();
  };

  std::vector<TuneResult> results;
  for (std::size_t i = 0; i < problems.size() && !stop_rule.stop(); ++i) {
    observer.problem_started(i, problems.size(), problems[i]);
    prepare(i);
    if (!tunings[i]) break;
    // The compilers work on the next problem while the GPU works on this one.
    const std::optional<TuneResult> result =
        tunings[i]->execute(stop_rule.share(problems.size() - i), [&] { prepare(i + 1); });
    tunings[i].reset();
    builder.forget_built();
    if (!result) break;
    results.push_back(*result);
    observer.problem_ended(i, results.back());
  }
  return results;
}

}  // namespace kiln::tuner
