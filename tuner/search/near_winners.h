// Winners of other problems, as places where a search may start. Pure; thread-safe.
#pragma once

#include <span>
#include <vector>

#include "runtime/store.h"
#include "tuner/search/search_space.h"

namespace kiln::tuner {

// Adds the points of `space` that won, or are nearest to what won, the problems nearest to `problem`: nearest problems
// first, at most `most`, none twice. `op` is the problem's.
void add_near_winners(const SearchSpace& space, const OpSpec& op, const Problem& problem,
                      std::span<const Decision> winners, std::size_t most, std::vector<std::size_t>* points);

}  // namespace kiln::tuner
