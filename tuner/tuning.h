// The orchestrator of a tuning run: problem by problem it enumerates, compiles ahead, measures, stores each trial as it
// ends, has the finalists measured again in a fresh process, and decides. All that touches a device or a file comes in
// from outside, so the whole runs on a fictional device too. Not thread-safe: one run() at a time.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "cuda/device.h"
#include "kernel/template_set.h"
#include "kiln/tuner.h"
#include "runtime/store.h"
#include "tuner/kernel_builder.h"
#include "tuner/worker/measurer.h"

namespace kiln::tuner {

struct TuningParts {
  const TemplateSet* templates = nullptr;
  Store* store = nullptr;
  Compiler* compiler = nullptr;
  Measurer* measurer = nullptr;  // null: predict
  cuda::DeviceInfo device;
  Versions versions;                   // its nvrtc is the one that compiles
  std::vector<Decision> presets = {};  // shipped winners: where a search may start
};

// Why `options` leave a template out; empty: they do not.
std::string left_out(const TuneOptions& options, const Manifest& manifest);

// The templates that a search under `options` draws candidates from.
std::vector<TemplatePtr> searched_templates(const TemplateSet& templates, const Problem& problem,
                                            const cuda::DeviceInfo& device, const TuneOptions& options);

// When to stop: the observer's wish, or the budget's end. Cheap to ask.
class StopRule {
 public:
  using Clock = std::chrono::steady_clock;
  StopRule(TuneObserver& observer, std::chrono::milliseconds budget);

  bool stop() const;
  // What each of `problems_left` problems may use of the time left; empty without a budget.
  std::optional<Clock::duration> share(std::size_t problems_left) const;

 private:
  TuneObserver* observer_;
  std::optional<Clock::time_point> end_;
};

// Tunes each problem; see Tuner::tune.
std::vector<TuneResult> run_tuning(const TuningParts& parts, const TuneOptions& options,
                                   const std::vector<Problem>& problems, TuneObserver& observer);

}  // namespace kiln::tuner
