// Ranges of one dim: how people write them, and which values stand for one. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/template.h"
#include "kiln/tuner.h"

namespace kiln::tuner {

// The range that `text` names by a field such as m=1..8192, or empty when none of its fields has "..". Throws
// Error{invalid_argument}: more than one range, a range of something that is no dim or a stride, ends that are no
// integers, out of order, below the dim's minimum or above 2^20.
std::optional<ProblemRange> read_range(const OpSpec& op, const ProblemText& text);

// Throws Error{invalid_argument} for what read_range refuses, and a dim that one of `templates` bakes.
void check_range(const OpSpec& op, const ProblemRange& range, const std::vector<TemplatePtr>& templates);

// The values at which a range is tuned, ascending, its ends among them: powers of two, halfway between them, and every
// value of a parameter that stands beside the dim in a let or a grid of a template (a tile's extent, mostly), where the
// number of tiles changes.
std::vector<std::int64_t> sample_extents(const ProblemRange& range, const std::vector<TemplatePtr>& templates);

// "M=1..8192"
std::string range_text(const ProblemRange& range);

}  // namespace kiln::tuner
