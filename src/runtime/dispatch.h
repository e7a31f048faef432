// Problems of which one dim is a range: where the configuration may change along it. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/template.h"
#include "runtime/store.h"

namespace kiln {

struct DimRange {
  std::string dim;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// `given` with `dim` set, and what it leaves out filled in. Throws Error{invalid_argument} as complete() does.
Problem with_extent(const OpSpec& op, const Problem& given, const std::string& dim, std::int64_t extent);

// The last extents of the intervals that a dispatch table over `range` has: the powers of two, the range's end, and
// every extent for which just this problem is among `known`. Ascending; each is the end of an interval that
// begins after the one before.
std::vector<std::int64_t> dispatch_points(const OpSpec& op, const Problem& given, const DimRange& range,
                                          const std::vector<Problem>& known);

// What of a configuration is compiled: two with the same text share a cubin wherever the problem does.
std::string compiled_part(const KernelTemplate& t, const Config& config);

}  // namespace kiln
