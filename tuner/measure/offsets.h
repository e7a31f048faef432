// Random cumulative offsets, as of sequences of different lengths packed one after another: what a check feeds an
// operand that holds some. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "tuner/measure/layout.h"

namespace kiln::tuner {

// Where each of `count` - 1 runs begins, and where the last one ends: `count` numbers that never fall, from 0 to
// bounds.total (to less where that many runs cannot be so long together), no run longer than bounds.largest. Of three
// runs or more one is empty and one of the largest length, where the total allows it; so runs of every kind occur.
// The same seed gives the same offsets. Bounds below 0 count as 0; no offsets for a count of 0.
std::vector<std::int64_t> random_offsets(std::int64_t count, const OffsetBounds& bounds, std::uint64_t seed);

}  // namespace kiln::tuner
