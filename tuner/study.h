// A study of the search: each problem is tuned by the default search and by an exhaustive one, apart from each other,
// and both winners and the cost model's first choice are then timed in the same rounds. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/tuning.h"

namespace kiln::tuner {

struct StudyRow {
  Problem problem;
  std::string failure;  // why there is no comparison; empty: there is one

  TuneResult found;       // by the default search
  TuneResult exhaustive;  // by the exhaustive one
  // Of the fresh comparison, microseconds.
  double found_us = 0;
  double exhaustive_us = 0;
  // What the cost models alone would choose: the first by prediction that the exhaustive search found usable.
  std::string model_template;
  std::string model_config;
  double model_us = 0;
  int model_skipped = 0;  // unusable ones that were predicted faster still

  // Best time ÷ this one's time, where best is the fastest of the comparison: 1 when it is the fastest itself.
  double found_of_best() const;
  double model_of_best() const;
};

struct StudySummary {
  double mean_loss = 0;  // 1 − found_of_best(), mean over the problems
  double worst_loss = 0;
  double model_of_best = 0;  // mean
  int most_tried = 0;        // candidates of the default search
  double most_seconds = 0;
  std::size_t compared = 0;
};
StudySummary summarise(const std::vector<StudyRow>& rows);

// `parts.store` takes what the exhaustive search measures; the default search has an empty store of its own, which it
// keeps from problem to problem, and of parts.presets only those of other problems. `options` are the default search's;
// with options.reuse_trials the exhaustive one measures only what `parts.store` has no trial of, and the best.
// Problems not reached before a stop or the end of options.budget are left out.
std::vector<StudyRow> run_study(const TuningParts& parts, const TuneOptions& options,
                                const std::vector<Problem>& problems, TuneObserver& observer);

}  // namespace kiln::tuner
