#include "tuner/measure/layout.h"

#include <algorithm>
#include <cmath>

#include "kiln/error.h"

namespace kiln::tuner {
namespace {

// Half a unit in the last place is 2⁻⁹ for bf16 and 2⁻¹² for f16; with some room, since it is not the only error.
double rounding_error(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 4e-3;
    case DType::f16:
      return 5e-4;
    case DType::f8e4m3:
      return 6e-2;
    case DType::f8e5m2:
      return 1.2e-1;
    default:
      return 0;
  }
}

ScalarValue convert(ScalarType type, double value) {
  ScalarValue scalar{.u64 = 0};
  switch (type) {
    case ScalarType::f32:
      scalar.f32 = static_cast<float>(value);
      break;
    case ScalarType::i32:
      scalar.i32 = static_cast<std::int32_t>(value);
      break;
    case ScalarType::u32:
      scalar.u32 = static_cast<std::uint32_t>(value);
      break;
    case ScalarType::i64:
      scalar.i64 = static_cast<std::int64_t>(value);
      break;
    case ScalarType::u64:
      scalar.u64 = static_cast<std::uint64_t>(value);
      break;
  }
  return scalar;
}

// Offsets that are those of another operand are filled with its seed.
void share_seeds(const OpSpec& op, std::vector<OperandLayout>& layouts) {
  for (OperandLayout& layout : layouts) {
    const auto input = op.check.inputs.find(layout.name);
    if (input == op.check.inputs.end()) continue;
    const auto other = std::find_if(layouts.begin(), layouts.end(), [&input](const OperandLayout& candidate) {
      return candidate.name == input->second.same_as;
    });
    if (other == layouts.end()) continue;
    if (other->offsets == layout.offsets && other->elements == layout.elements) layout.seeded_by = other->seeded_by;
  }
}

}  // namespace

std::vector<OperandLayout> operand_layouts(const OpSpec& op, const Problem& given) {
  const Problem problem = in_full(op, given);
  Scope scope;
  bind_problem(op, problem, scope);
  std::vector<OperandLayout> layouts;
  for (const OperandSpec& operand : op.operands) {
    OperandLayout layout;
    layout.name = operand.name;
    layout.role = operand.output_when && is_present(operand.output_when, scope) ? Role::out : operand.role;
    layout.dtype = problem.dtypes.at(operand.dtype);
    layout.seeded_by = layouts.size();
    if (const auto found = op.check.inputs.find(operand.name); found != op.check.inputs.end()) {
      layout.distribution = found->second.distribution;
      layout.offsets = {.total = found->second.total.evaluate(scope), .largest = found->second.largest.evaluate(scope)};
    }
    layout.elements = elements(operand, scope);
    layout.bytes = layout.elements * size_of(layout.dtype);
    layout.alignment = problem.alignments.at(operand.name);
    layouts.push_back(std::move(layout));
  }
  share_seeds(op, layouts);
  return layouts;
}

std::int64_t set_bytes(const std::vector<OperandLayout>& layouts) {
  std::int64_t bytes = 0;
  for (const OperandLayout& layout : layouts) bytes += layout.bytes;
  return bytes;
}

bool computes_nothing(const std::vector<OperandLayout>& layouts) {
  return std::all_of(layouts.begin(), layouts.end(),
                     [](const OperandLayout& layout) { return layout.role == Role::in || layout.elements == 0; });
}

Problem reference_problem(const OpSpec& op, const Problem& problem) {
  Problem reference = problem;
  for (const auto& [name, dtype] : op.check.reference_dtypes) reference.dtypes[name] = dtype;
  // A wider element cannot be promised less alignment than its own; the reference has buffers of its own anyway.
  for (const OperandSpec& operand : op.operands) {
    const auto alignment = reference.alignments.find(operand.name);
    if (alignment == reference.alignments.end()) continue;
    alignment->second = std::max(alignment->second, size_of(reference.dtypes.at(operand.dtype)));
  }
  return complete(op, reference);
}

std::vector<std::map<std::string, double>> check_cases(const OpSpec& op, const Problem& problem) {
  Scope scope;
  bind_problem(op, problem, scope);
  std::map<std::string, double> defaults;
  for (const ScalarSpec& scalar : op.scalars) defaults[scalar.name] = scalar.fallback;
  std::vector<std::map<std::string, double>> cases;
  for (const CheckCase& check_case : op.check.cases) {
    if (!is_present(check_case.when, scope)) continue;
    cases.push_back(check_case.scalars);
    cases.back().insert(defaults.begin(), defaults.end());
    for (const auto& [name, extent] : check_case.by_root) {
      const std::int64_t value = std::max<std::int64_t>(1, extent.evaluate(scope));
      cases.back().at(name) /= std::sqrt(static_cast<double>(value));
    }
  }
  if (cases.empty()) cases.push_back(defaults);
  return cases;
}

std::vector<ScalarValue> scalar_values(const OpSpec& op, const std::map<std::string, double>& values) {
  std::vector<ScalarValue> scalars;
  for (const ScalarSpec& scalar : op.scalars) {
    const auto found = values.find(scalar.name);
    scalars.push_back(convert(scalar.type, found == values.end() ? scalar.fallback : found->second));
  }
  return scalars;
}

bool starts_poisoned(const OperandSpec& operand, const std::map<std::string, double>& scalars) {
  if (operand.role != Role::inout) return operand.role == Role::out;
  const auto holds = [&scalars](const auto& condition) {
    const auto scalar = scalars.find(condition.first);
    return scalar != scalars.end() && scalar->second == condition.second;
  };
  return !operand.unread_when.empty() && std::all_of(operand.unread_when.begin(), operand.unread_when.end(), holds);
}

double tolerance(const Manifest& manifest, const OpSpec& op, const Problem& problem) {
  std::string selector = op.check.dtype;
  for (const OperandSpec& operand : op.operands) {
    if (selector.empty() && operand.role != Role::in) selector = operand.dtype;
  }
  const auto dtype = problem.dtypes.find(selector);
  if (dtype == problem.dtypes.end()) {
    throw Error(ErrorCode::invalid_manifest, "op " + op.name + ": check.dtype '" + selector +
                                                 "' is not a dtype of the op; name the one that selects the tolerance");
  }
  const auto own = manifest.check_tolerance.find(dtype->second);
  const auto shared = op.check.tolerance.find(dtype->second);
  if (own == manifest.check_tolerance.end() && shared == op.check.tolerance.end()) {
    throw Error(ErrorCode::invalid_manifest, manifest.name + ": no tolerance for " +
                                                 std::string(to_string(dtype->second)) +
                                                 ": add it to check.tolerance of the template or of op " + op.name);
  }
  Scope scope;
  bind_problem(op, problem, scope);
  const std::int64_t loosen = op.check.loosen.evaluate(scope);
  if (loosen < 1) {
    throw Error(ErrorCode::invalid_manifest, "op " + op.name + ": check.loosen '" + op.check.loosen.text() + "' is " +
                                                 std::to_string(loosen) + " for " + problem.canonical() +
                                                 "; it multiplies the tolerance and must be at least 1");
  }
  double bound = static_cast<double>(loosen) * (own != manifest.check_tolerance.end() ? own->second : shared->second);
  for (const OperandSpec& operand : op.operands) {
    if (operand.role != Role::in && problem.dtypes.count(operand.dtype) != 0)
      bound = std::max(bound, rounding_error(problem.dtypes.at(operand.dtype)));
  }
  return bound;
}

int rotation_sets(std::int64_t bytes_per_set, std::int64_t l2_bytes, std::int64_t budget_bytes, bool cold) {
  if (!cold || bytes_per_set <= 0) return 1;
  const std::int64_t wanted = std::max<std::int64_t>(2, (3 * l2_bytes + bytes_per_set - 1) / bytes_per_set);
  // A batch runs over every set, so this bounds its launches too.
  constexpr std::int64_t kMost = 8192;
  return static_cast<int>(std::max<std::int64_t>(1, std::min({wanted, budget_bytes / bytes_per_set, kMost})));
}

}  // namespace kiln::tuner
