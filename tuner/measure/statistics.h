// What a set of batches says: the median, how far to trust it, and which rounds ran on a clock that had fallen.
// Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/store.h"

namespace kiln::tuner {

// Median, extremes and spread = (p75 − p25) / median of the batches' times. Quantiles interpolate between neighbours.
// Without samples every field is 0. `error` and `sm_clock_mhz` are the caller's.
Timing summarize(std::span<const double> samples_us);

// The value below which the part `fraction` (0 … 1) of the samples lies; 0 without samples.
double quantile(std::span<const double> samples, double fraction);

// The rounds whose SM clock fell more than 5 % below that of the rounds beside them. A clock that falls slowly, as
// under a power cap, hits all contestants alike and is no such case. A clock of 0 is unknown and never dirty.
std::vector<std::size_t> dirty_rounds(std::span<const int> clocks_mhz);

}  // namespace kiln::tuner
