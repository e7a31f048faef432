// Where a search begins. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tuner/search/search_space.h"

namespace kiln::tuner {

// `count` points worth measuring first: `first`, the defaults, and then in turn the next by predicted time, the one
// most unlike those chosen among all that the model cannot tell from the best, and the next of another template, since
// models of different templates need not agree. By predicted time, two points of one template differ in more than one
// parameter, and at most two are predicted exactly alike, for as long as there are such.
std::vector<std::size_t> shortlist(const SearchSpace& space, std::span<const std::size_t> first, std::size_t count);

}  // namespace kiln::tuner
