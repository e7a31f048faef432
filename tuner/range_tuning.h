// Tuning over a range of one dim: see Tuner::tune_range. Not thread-safe.
#pragma once

#include "tuner/tuning.h"

namespace kiln::tuner {

// Throws Error{invalid_argument} for a range that cannot be, Error{not_found} for an unknown op. What ends a run before
// all is tuned makes a failed result; what was tuned by then is kept, and the same call goes on from there.
RangeResult run_range_tuning(const TuningParts& parts, const TuneOptions& options, const ProblemRange& range,
                             TuneObserver& observer);

}  // namespace kiln::tuner
