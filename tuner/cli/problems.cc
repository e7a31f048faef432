#include "tuner/cli/problems.h"

#include <algorithm>

#include "base/text.h"
#include "kernel/op_spec.h"
#include "kiln/error.h"
#include "runtime/dispatch.h"
#include "tuner/range.h"

namespace kiln::cli {
namespace {

void append(std::string& text, const std::string& name, const std::string& value) {
  text += (text.empty() ? "" : ",") + name + "=" + value;
}

// What must be said of the problem: it less the dims and dtypes that follow from the op's defaults. Defaults depend on
// what comes before them, so it is completed again for each field that turns out to be needed; few are.
Problem least_given(const OpSpec& op, const Problem& problem) {
  Problem given = problem;
  for (const DimSpec& dim : op.dims) {
    if (dim.fallback) given.dims.erase(dim.name);
  }
  for (const DTypeSpec& dtype : op.dtypes) {
    if (dtype.fallback || !dtype.copy_of.empty()) given.dtypes.erase(dtype.name);
  }
  // True when the field's default is not what the problem has, and so was added.
  const auto added = [](auto& fields, const auto& completed, const auto& wanted, const std::string& name) {
    const auto value = wanted.find(name);
    if (value == wanted.end() || fields.count(name) != 0) return false;
    const auto by_default = completed.find(name);
    if (by_default != completed.end() && by_default->second == value->second) return false;
    fields.insert(*value);
    return true;
  };
  try {
    for (bool is_whole = false; !is_whole;) {
      const Problem completed = complete(op, given);
      is_whole = std::none_of(op.dtypes.begin(), op.dtypes.end(),
                              [&](const DTypeSpec& dtype) {
                                return added(given.dtypes, completed.dtypes, problem.dtypes, dtype.name);
                              }) &&
                 std::none_of(op.dims.begin(), op.dims.end(), [&](const DimSpec& dim) {
                   return added(given.dims, completed.dims, problem.dims, dim.name);
                 });
    }
    return given;
  } catch (const Error&) {
    return problem;  // a default that is refused on the way says nothing: everything is said
  }
}

// `dtype` for those that must be given where they are alike, then what is not as the op has it by default.
void append_dtypes(const OpSpec& op, const Problem& problem, const Problem& given, std::string& text) {
  std::vector<std::string> needed;
  for (const DTypeSpec& spec : op.dtypes) {
    if (spec.copy_of.empty() && !spec.fallback && problem.dtypes.count(spec.name) != 0) needed.push_back(spec.name);
  }
  const auto text_of = [&problem](const std::string& name) { return std::string(to_string(problem.dtypes.at(name))); };
  const bool alike = std::all_of(needed.begin(), needed.end(),
                                 [&](const std::string& name) { return text_of(name) == text_of(needed.front()); });
  if (alike && !needed.empty()) append(text, "dtype", text_of(needed.front()));
  for (const DTypeSpec& spec : op.dtypes) {
    if (problem.dtypes.count(spec.name) == 0) continue;
    const bool is_needed = std::find(needed.begin(), needed.end(), spec.name) != needed.end();
    if (is_needed ? alike : given.dtypes.count(spec.name) == 0) continue;
    append(text, spec.name, text_of(spec.name));
  }
}

}  // namespace

Problem problem_from_flags(const TemplateSet& templates, const std::string& op, const std::string& fields) {
  return problem_from_text(*templates.find_op(op), parse_problem_text(op, fields));
}

ProblemOrRange problem_or_range_from_flags(const TemplateSet& templates, const std::string& op,
                                           const std::string& fields) {
  const auto spec = templates.find_op(op);
  const ProblemText text = parse_problem_text(op, fields);
  if (std::optional<ProblemRange> range = tuner::read_range(*spec, text)) {
    // That the fixed part is a problem at all is seen at one of its ends.
    with_extent(*spec, range->given, range->dim, range->last);
    return std::move(*range);
  }
  return problem_from_text(*spec, text);
}

std::string short_text(const OpSpec& op, const ProblemRange& range) {
  const std::string fixed = short_text(op, with_extent(op, range.given, range.dim, range.last));
  const std::string own = range.dim + "=" + std::to_string(range.last);
  // The dim is among those that a person gives, so it is written; as the first field, or after a comma.
  std::string text;
  for (const std::string& field : split(fixed, ',')) {
    text += (text.empty() ? "" : ",") + (field == own ? tuner::range_text(range) : field);
  }
  return text;
}

std::string short_text(const OpSpec& op, const Problem& problem) {
  std::string text;
  const Problem given = least_given(op, problem);
  for (const DimSpec& dim : op.dims) {
    const auto found = given.dims.find(dim.name);
    if (found != given.dims.end()) append(text, dim.name, std::to_string(found->second));
  }
  append_dtypes(op, problem, given, text);
  for (const ChoiceSpec& choice : op.choices) {
    const auto found = problem.choices.find(choice.name);
    if (found != problem.choices.end() && found->second != choice.fallback) append(text, choice.name, found->second);
  }
  return text;
}

std::optional<Problem> sample_problem(const KernelTemplate& t, const cuda::DeviceInfo& device, std::int64_t extent,
                                      std::size_t rule) {
  Problem problem;
  problem.op = t.op->name;
  for (const DimSpec& dim : t.op->dims) {
    if (!dim.fallback) problem.dims[dim.name] = dim.typical.value_or(std::max(extent, dim.min.value_or(extent)));
  }
  if (rule < t.manifest.accept.size()) {
    const AcceptRule& accept = t.manifest.accept[rule];
    for (const auto& [name, values] : accept.dtypes) {
      if (!values.empty()) problem.dtypes[name] = values.front();
    }
    for (const auto& [name, same] : accept.same_as) {
      const auto found = problem.dtypes.find(same);
      if (found != problem.dtypes.end()) problem.dtypes[name] = found->second;
    }
  }
  for (const DTypeSpec& dtype : t.op->dtypes) {
    if (dtype.copy_of.empty() && !dtype.fallback) problem.dtypes.try_emplace(dtype.name, dtype.values.front());
  }
  try {
    problem = complete(*t.op, std::move(problem));
  } catch (const Error&) {
    return std::nullopt;  // the op itself forbids such extents
  }
  if (!rejection(t, problem, device).empty()) return std::nullopt;
  return problem;
}

}  // namespace kiln::cli
