#include "runtime/dispatch.h"

#include <algorithm>
#include <set>

namespace kiln {

Problem with_extent(const OpSpec& op, const Problem& given, const std::string& dim, std::int64_t extent) {
  Problem problem = given;
  problem.dims[dim] = extent;
  return complete(op, std::move(problem));
}

std::vector<std::int64_t> dispatch_points(const OpSpec& op, const Problem& given, const DimRange& range,
                                          const std::vector<Problem>& known) {
  std::set<std::int64_t> points{range.last};
  const std::int64_t smallest = std::max<std::int64_t>(1, range.first);
  for (std::int64_t power = 1; power < range.last; power *= 2) {
    if (power >= smallest) points.insert(power);
  }
  for (const Problem& problem : known) {
    const auto it = problem.dims.find(range.dim);
    if (it == problem.dims.end() || it->second < smallest || it->second > range.last) continue;
    if (problem == with_extent(op, given, range.dim, it->second)) points.insert(it->second);
  }
  return {points.begin(), points.end()};
}

std::string compiled_part(const KernelTemplate& t, const Config& config) {
  std::string text = t.manifest.name;
  for (const ParamSpec& param : t.manifest.params) {
    if (!param.launch_time) text += " " + param.name + "=" + std::to_string(config.at(param.name));
  }
  return text;
}

}  // namespace kiln
