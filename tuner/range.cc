#include "tuner/range.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/text.h"
#include "kiln/error.h"

namespace kiln::tuner {
namespace {

constexpr std::string_view kDots = "..";
constexpr std::int64_t kLargest = 1 << 20;  // what a dispatch table takes

[[noreturn]] void refuse(const std::string& field, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "range " + field + ": " + what);
}

std::int64_t read_end(const std::string& field, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) {
    refuse(field, "'" + std::string(text) + "' is no integer; write it as 1..8192");
  }
  return value;
}

std::vector<std::string> dims_that_may_vary(const OpSpec& op) {
  std::vector<std::string> names;
  for (const DimSpec& dim : op.dims) {
    if (!dim.is_stride) names.push_back(dim.name);
  }
  return names;
}

// The parameters that stand beside the dim in one expression.
void add_params_beside(const Manifest& manifest, const std::string& dim, const Expression& expression,
                       std::set<std::string>* names) {
  const std::vector<std::string>& symbols = expression.symbols();
  if (std::find(symbols.begin(), symbols.end(), dim) == symbols.end()) return;
  for (const std::string& symbol : symbols) {
    if (manifest.find_param(symbol) != nullptr) names->insert(symbol);
  }
}

}  // namespace

std::string range_text(const ProblemRange& range) {
  return range.dim + "=" + std::to_string(range.first) + std::string(kDots) + std::to_string(range.last);
}

std::optional<ProblemRange> read_range(const OpSpec& op, const ProblemText& text) {
  ProblemText fixed = text;
  std::optional<ProblemRange> range;
  for (const auto& [name, value] : text.fields) {
    const std::size_t dots = value.find(kDots);
    if (dots == std::string::npos) continue;
    const std::string field = name + "=" + value;
    if (range) refuse(field, "a second range; one dim may vary, the others are fixed");
    range.emplace();
    const auto named = [&](const DimSpec& dim) { return lower(dim.name) == lower(name); };
    const auto dim = std::find_if(op.dims.begin(), op.dims.end(), named);
    if (dim == op.dims.end()) {
      refuse(field, "op " + op.name + " has no dim '" + name + "'; a range is of one of " +
                        join(dims_that_may_vary(op), ", "));
    }
    range->dim = dim->name;
    range->first = read_end(field, std::string_view(value).substr(0, dots));
    range->last = read_end(field, std::string_view(value).substr(dots + kDots.size()));
    fixed.fields.erase(name);
  }
  if (!range) return std::nullopt;
  range->given = given_in_text(op, fixed);
  check_range(op, *range, {});
  return range;
}

void check_range(const OpSpec& op, const ProblemRange& range, const std::vector<TemplatePtr>& templates) {
  const std::string field = range_text(range);
  const auto dim =
      std::find_if(op.dims.begin(), op.dims.end(), [&](const DimSpec& each) { return each.name == range.dim; });
  if (dim == op.dims.end() || dim->is_stride) {
    refuse(field, "'" + range.dim + "' is " + (dim == op.dims.end() ? "no dim" : "a stride") + " of op " + op.name +
                      "; a range is of one of " + join(dims_that_may_vary(op), ", "));
  }
  const std::int64_t smallest = std::max<std::int64_t>(1, dim->min.value_or(1));
  if (range.first < smallest || range.last > kLargest || range.first > range.last) {
    refuse(field, "the ends must be in order, the first at least " + std::to_string(smallest) + ", the last at most " +
                      std::to_string(kLargest));
  }
  for (const TemplatePtr& t : templates) {
    const auto& baked = t->manifest.bake;
    if (std::find(baked.begin(), baked.end(), range.dim) == baked.end()) continue;
    refuse(field, "template " + t->manifest.name + " bakes " + range.dim +
                      " into its kernels, so no cubin serves a range; choose other templates with --template");
  }
}

std::vector<std::int64_t> sample_extents(const ProblemRange& range, const std::vector<TemplatePtr>& templates) {
  std::set<std::int64_t> extents{range.first, range.last};
  const auto add = [&](std::int64_t extent) {
    if (extent >= range.first && extent <= range.last) extents.insert(extent);
  };
  for (std::int64_t power = 1; power <= range.last; power *= 2) {
    add(power);
    if (power > 1) add(power + power / 2);
  }
  for (const TemplatePtr& t : templates) {
    std::set<std::string> beside;
    for (const LetSpec& let : t->manifest.lets) add_params_beside(t->manifest, range.dim, let.value, &beside);
    for (const LaunchSpec& launch : t->manifest.launches) {
      for (const Expression& extent : launch.grid) add_params_beside(t->manifest, range.dim, extent, &beside);
    }
    for (const std::string& name : beside) {
      for (const std::int64_t value : t->manifest.find_param(name)->values) add(value);
    }
  }
  return {extents.begin(), extents.end()};
}

}  // namespace kiln::tuner
