// Who wins, by rule, so that two runs which measure alike choose alike. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "runtime/store.h"

namespace kiln::tuner {

// The index of the winner among `finalists`, which stand in the fixed order that breaks ties; there must be one.
// `incumbent` (an index) stays unless the fastest is faster by more than `noise`. Otherwise the winner is the first of
// those that the measurement cannot tell from the fastest: closer than the larger of the two spreads, and at most a
// quarter of `noise`.
std::size_t choose_winner(std::span<const Timing> finalists, std::optional<std::size_t> incumbent, double noise);

// Whether `us` is within `noise` of the winner's `winner_us`.
bool is_tie(double us, double winner_us, double noise);

}  // namespace kiln::tuner
