#include "kernel/op_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "kiln/error.h"

namespace kiln {
namespace {

template <class Spec>
std::vector<std::string> names_of(const std::vector<Spec>& specs) {
  std::vector<std::string> names;
  for (const Spec& spec : specs) names.push_back(spec.name);
  return names;
}

template <class Spec, class Map>
void refuse_unknown(const std::string& what, const OpSpec& op, const std::vector<Spec>& specs, const Map& given) {
  const std::vector<std::string> known = names_of(specs);
  for (const auto& [name, value] : given) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw Error(ErrorCode::invalid_argument, "op " + op.name + " has no " + what + " '" + name + "'" +
                                                 did_you_mean(name, known) + "; it has " + join(known, ", "));
  }
}

std::string dtype_list(const std::vector<DType>& dtypes) {
  std::vector<std::string> names;
  for (const DType dtype : dtypes) names.emplace_back(to_string(dtype));
  return join(names, ", ");
}

void complete_dtypes(const OpSpec& op, Problem& problem) {
  for (const DTypeSpec& spec : op.dtypes) {
    auto it = problem.dtypes.find(spec.name);
    if (it == problem.dtypes.end()) {
      DType value{};
      if (spec.fallback) {
        value = *spec.fallback;
      } else if (!spec.copy_of.empty()) {
        value = problem.dtypes.at(spec.copy_of);
        if (const auto mapped = spec.copy_map.find(value); mapped != spec.copy_map.end()) value = mapped->second;
      } else if (spec.values.size() == 1) {
        value = spec.values.front();
      } else {
        throw Error(ErrorCode::invalid_argument,
                    "op " + op.name + " needs dtype '" + spec.name + "', one of " + dtype_list(spec.values));
      }
      it = problem.dtypes.emplace(spec.name, value).first;
    }
    if (std::find(spec.values.begin(), spec.values.end(), it->second) == spec.values.end()) {
      throw Error(ErrorCode::invalid_argument, "op " + op.name + ": dtype " + spec.name + " is " +
                                                   std::string(to_string(it->second)) + "; allowed are " +
                                                   dtype_list(spec.values));
    }
  }
}

void complete_choices(const OpSpec& op, Problem& problem) {
  for (const ChoiceSpec& spec : op.choices) {
    const auto [it, inserted] = problem.choices.emplace(spec.name, spec.fallback);
    if (std::find(spec.values.begin(), spec.values.end(), it->second) == spec.values.end()) {
      throw Error(ErrorCode::invalid_argument, "op " + op.name + ": " + spec.name + " is '" + it->second +
                                                   "'; allowed are " + join(spec.values, ", "));
    }
  }
}

void complete_alignments(const OpSpec& op, Problem& problem) {
  refuse_unknown("operand", op, op.operands, problem.alignments);
  for (const OperandSpec& operand : op.operands) {
    const int element = size_of(problem.dtypes.at(operand.dtype));
    const auto [it, inserted] = problem.alignments.emplace(operand.name, 16);
    const int value = it->second;
    if (value < element || value > 256 || (value & (value - 1)) != 0) {
      throw Error(ErrorCode::invalid_argument,
                  "op " + op.name + ": alignment of " + operand.name + " is " + std::to_string(value) +
                      " bytes; allowed are powers of two from the element's " + std::to_string(element) + " to 256");
    }
  }
}

void bind_choices(const OpSpec& op, const Problem& problem, Scope& scope) {
  for (const ChoiceSpec& spec : op.choices) {
    for (const std::string& value : spec.values) {
      scope.set(spec.name + "_is_" + value, problem.choices.at(spec.name) == value ? 1 : 0);
    }
  }
}

void bind_types(const OpSpec& op, const Problem& problem, Scope& scope) {
  for (const DTypeSpec& spec : op.dtypes) {
    const DType dtype = problem.dtypes.at(spec.name);
    scope.set("sizeof_" + spec.name, size_of(dtype));
    for (const DType value : spec.values) {
      scope.set(spec.name + "_is_" + std::string(to_string(value)), value == dtype ? 1 : 0);
    }
    // A reference may run with a dtype outside the op's list; its own flag still must exist.
    scope.set(spec.name + "_is_" + std::string(to_string(dtype)), 1);
  }
  bind_choices(op, problem, scope);
  for (const OperandSpec& operand : op.operands)
    scope.set("align_" + operand.name, problem.alignments.at(operand.name));
}

// Leaves the scope with every symbol of the problem.
void complete_dims(const OpSpec& op, Problem& problem, Scope& scope) {
  bind_types(op, problem, scope);
  for (const DimSpec& spec : op.dims) {
    auto it = problem.dims.find(spec.name);
    if (it == problem.dims.end()) {
      if (!spec.fallback) {
        throw Error(ErrorCode::invalid_argument, "op " + op.name + " needs dim '" + spec.name + "', an integer" +
                                                     (spec.min ? " ≥ " + std::to_string(*spec.min) : ""));
      }
      it = problem.dims.emplace(spec.name, spec.fallback->evaluate(scope)).first;
    }
    if (spec.min && it->second < *spec.min) {
      throw Error(ErrorCode::invalid_argument, "op " + op.name + ": " + spec.name + " is " +
                                                   std::to_string(it->second) + "; it must be at least " +
                                                   std::to_string(*spec.min));
    }
    scope.set(spec.name, it->second);
  }
}

void check_requirements(const OpSpec& op, const Problem& problem, const Scope& scope) {
  for (const Requirement& requirement : op.require) {
    if (requirement.condition.evaluate(scope) != 0) continue;
    std::string values;
    for (const std::string& symbol : requirement.condition.symbols()) {
      if (problem.dims.count(symbol) != 0) values += " " + symbol + "=" + std::to_string(problem.dims.at(symbol));
    }
    throw Error(ErrorCode::invalid_argument,
                "op " + op.name + ": " + requirement.reason + " (" + requirement.condition.text() + ");" + values);
  }
}

std::int64_t read_dim(const std::string& name, const std::string& text) {
  std::size_t used = 0;
  std::int64_t value = 0;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size()) {
    throw Error(ErrorCode::invalid_argument, name + "='" + text + "' is not a 64-bit integer");
  }
  return value;
}

int read_alignment(const std::string& name, const std::string& text) {
  const std::int64_t value = read_dim(name, text);
  // What is allowed depends on the element: complete() says. Here nothing must be cut short.
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    throw Error(ErrorCode::invalid_argument,
                name + "=" + text + " is no alignment; allowed are powers of two up to 256");
  }
  return static_cast<int>(value);
}

// `dtype` is given to those dtypes that have no other default, and through `default = "=a"` to the rest.
void set_every_dtype(const OpSpec& op, DType dtype, Problem& problem) {
  bool taken = false;
  for (const DTypeSpec& spec : op.dtypes) {
    if (!spec.copy_of.empty() || spec.fallback) continue;
    problem.dtypes.emplace(spec.name, dtype);
    taken = true;
  }
  if (!taken) {
    throw Error(ErrorCode::invalid_argument, "op " + op.name + ": every dtype has a default, so give them by name: " +
                                                 join(names_of(op.dtypes), ", "));
  }
}

DType read_dtype(const std::string& name, const std::string& text) {
  const auto dtype = parse_dtype(text);
  if (!dtype) {
    throw Error(ErrorCode::invalid_argument,
                name + "='" + text + "' is no dtype; allowed: " + std::string(dtype_names()));
  }
  return *dtype;
}

// What is given of a dim or dtype that the problem does not have would be lost without a word.
template <class Spec, class Map>
void refuse_absent(const std::string& what, const OpSpec& op, const std::vector<Spec>& specs, const Map& given,
                   const Scope& choices) {
  for (const Spec& spec : specs) {
    if (is_present(spec.when, choices) || given.count(spec.name) == 0) continue;
    throw Error(ErrorCode::invalid_argument, "op " + op.name + ": the " + what + " " + spec.name +
                                                 " is given, but this problem has none; it belongs to one with " +
                                                 spec.when->text());
  }
}

template <class Spec, class Map>
void erase_absent(const std::vector<Spec>& specs, Map& map, const Scope& choices) {
  for (const Spec& spec : specs) {
    if (!is_present(spec.when, choices)) map.erase(spec.name);
  }
}

// Stored problems outlive the op they were completed for, whose dims and operands may since have other names. What only
// some problems have counts where `b` has it.
template <class Spec, class Map>
bool same_form(const std::vector<Spec>& specs, const Map& a, const Map& b) {
  std::size_t known = 0;
  for (const Spec& spec : specs) {
    known += b.count(spec.name);
    if (!spec.when && a.count(spec.name) != b.count(spec.name)) return false;
  }
  return known == b.size();
}

// How many variations set `a` and `b` apart; empty where another choice does.
std::optional<int> variations(const OpSpec& op, const Problem& a, const Problem& b) {
  int count = 0;
  std::size_t known = 0;
  for (const ChoiceSpec& spec : op.choices) {
    const auto value_in = [&spec](const Problem& problem) {
      const auto found = problem.choices.find(spec.name);
      return found != problem.choices.end() ? found->second : spec.omit_default ? spec.fallback : "";
    };
    known += b.choices.count(spec.name);
    if (value_in(a) == value_in(b)) continue;
    if (!spec.omit_default) return std::nullopt;
    ++count;
  }
  if (known != b.choices.size()) return std::nullopt;
  return count;
}

bool same_dtypes(const OpSpec& op, const Problem& a, const Problem& b) {
  return same_form(op.dtypes, a.dtypes, b.dtypes) &&
         std::all_of(a.dtypes.begin(), a.dtypes.end(), [&b](const auto& dtype) {
           const auto other = b.dtypes.find(dtype.first);
           return other == b.dtypes.end() || other->second == dtype.second;
         });
}

}  // namespace

int size_of(ScalarType type) noexcept {
  switch (type) {
    case ScalarType::i32:
    case ScalarType::u32:
    case ScalarType::f32:
      return 4;
    case ScalarType::i64:
    case ScalarType::u64:
      return 8;
  }
  return 8;
}

const OperandSpec* OpSpec::find_operand(const std::string& operand) const noexcept {
  for (const OperandSpec& spec : operands) {
    if (spec.name == operand) return &spec;
  }
  return nullptr;
}

bool is_present(const std::optional<Expression>& when, const Scope& scope) {
  return !when || when->evaluate(scope) != 0;
}

std::int64_t elements(const OperandSpec& operand, const Scope& scope) {
  return is_present(operand.when, scope) ? operand.elements.evaluate(scope) : 0;
}

Problem complete(const OpSpec& op, Problem problem) {
  problem.op = op.name;
  refuse_unknown("dim", op, op.dims, problem.dims);
  refuse_unknown("dtype", op, op.dtypes, problem.dtypes);
  refuse_unknown("choice", op, op.choices, problem.choices);
  complete_choices(op, problem);
  Scope choices;
  bind_choices(op, problem, choices);
  refuse_absent("dim", op, op.dims, problem.dims, choices);
  refuse_absent("dtype", op, op.dtypes, problem.dtypes, choices);
  complete_dtypes(op, problem);
  complete_alignments(op, problem);
  try {
    Scope scope;
    complete_dims(op, problem, scope);
    check_requirements(op, problem, scope);
  } catch (const Error& error) {
    // An extent too large to compute with: the caller's, not the op's.
    if (error.code() != ErrorCode::invalid_expression) throw;
    throw Error(ErrorCode::invalid_argument, "op " + op.name + ": " + error.what());
  }
  erase_absent(op.dims, problem.dims, choices);
  erase_absent(op.dtypes, problem.dtypes, choices);
  erase_absent(op.operands, problem.alignments, choices);
  for (const ChoiceSpec& spec : op.choices) {
    if (spec.omit_default && problem.choices.at(spec.name) == spec.fallback) problem.choices.erase(spec.name);
  }
  return problem;
}

Problem in_full(const OpSpec& op, Problem problem) {
  Scope scope;
  complete_choices(op, problem);
  complete_dtypes(op, problem);
  complete_alignments(op, problem);
  complete_dims(op, problem, scope);
  return problem;
}

// `align` bytes for every operand that has no alignment of its own yet; wider elements are at multiples of their size.
void align_every_operand(const OpSpec& op, int align, Problem& problem) {
  Problem typed = problem;
  complete_choices(op, typed);
  complete_dtypes(op, typed);
  for (const OperandSpec& operand : op.operands) {
    problem.alignments.emplace(operand.name,
                               std::max(align, static_cast<int>(size_of(typed.dtypes.at(operand.dtype)))));
  }
}

Problem given_in_text(const OpSpec& op, const ProblemText& text) {
  Problem problem;
  problem.op = op.name;
  std::optional<int> align;
  for (const auto& [raw_name, value] : text.fields) {
    const std::string name = lower(raw_name);
    if (name == "dtype") {
      set_every_dtype(op, read_dtype(name, value), problem);
      continue;
    }
    if (name == "align") {
      align = read_alignment(name, value);
      continue;
    }
    const auto named = [&name](const auto& spec) { return lower(spec.name) == name; };
    if (const auto dim = std::find_if(op.dims.begin(), op.dims.end(), named); dim != op.dims.end()) {
      problem.dims[dim->name] = read_dim(dim->name, value);
    } else if (const auto d = std::find_if(op.dtypes.begin(), op.dtypes.end(), named); d != op.dtypes.end()) {
      problem.dtypes[d->name] = read_dtype(d->name, value);
    } else if (const auto c = std::find_if(op.choices.begin(), op.choices.end(), named); c != op.choices.end()) {
      problem.choices[c->name] = value;
    } else if (name.rfind("align_", 0) == 0) {
      const auto aligned = [&name](const OperandSpec& operand) { return "align_" + lower(operand.name) == name; };
      const auto o = std::find_if(op.operands.begin(), op.operands.end(), aligned);
      problem.alignments[o == op.operands.end() ? name.substr(6) : o->name] = read_alignment(name, value);
    } else {
      std::vector<std::string> known{"dtype", "align"};
      for (const auto& list : {names_of(op.dims), names_of(op.dtypes), names_of(op.choices)}) {
        known.insert(known.end(), list.begin(), list.end());
      }
      throw Error(ErrorCode::invalid_argument, "op " + op.name + " knows no '" + raw_name + "'" +
                                                   did_you_mean(raw_name, known) + "; it knows " + join(known, ", "));
    }
  }
  if (align) align_every_operand(op, *align, problem);
  return problem;
}

Problem problem_from_text(const OpSpec& op, const ProblemText& text) { return complete(op, given_in_text(op, text)); }

void bind_problem(const OpSpec& op, const Problem& problem, Scope& scope) {
  const Problem full = in_full(op, problem);
  bind_types(op, full, scope);
  for (const DimSpec& spec : op.dims) scope.set(spec.name, full.dims.at(spec.name));
}

std::vector<std::string> problem_symbols(const OpSpec& op) {
  std::vector<std::string> names = names_of(op.dims);
  for (const DTypeSpec& spec : op.dtypes) {
    names.push_back("sizeof_" + spec.name);
    for (const DType value : spec.values) names.push_back(spec.name + "_is_" + std::string(to_string(value)));
  }
  for (const ChoiceSpec& spec : op.choices) {
    for (const std::string& value : spec.values) names.push_back(spec.name + "_is_" + value);
  }
  for (const OperandSpec& operand : op.operands) names.push_back("align_" + operand.name);
  return names;
}

std::int64_t flops(const OpSpec& op, const Problem& problem) {
  Scope scope;
  bind_problem(op, problem, scope);
  return op.flops.evaluate(scope);
}

std::int64_t bytes(const OpSpec& op, const Problem& problem) {
  Scope scope;
  bind_problem(op, problem, scope);
  return op.bytes.evaluate(scope);
}

std::optional<double> problem_distance(const OpSpec& op, const Problem& a, const Problem& b) {
  const std::optional<int> varied = variations(op, a, b);
  if (a.op != b.op || !varied || !same_dtypes(op, a, b)) return std::nullopt;
  if (!same_form(op.dims, a.dims, b.dims) || !same_form(op.operands, a.alignments, b.alignments)) return std::nullopt;
  double sum = *varied;
  int count = 0;
  for (const DimSpec& spec : op.dims) {
    if (spec.is_stride || a.dims.count(spec.name) + b.dims.count(spec.name) < 2) continue;
    const double x = static_cast<double>(std::max<std::int64_t>(1, a.dims.at(spec.name)));
    const double y = static_cast<double>(std::max<std::int64_t>(1, b.dims.at(spec.name)));
    sum += std::pow(std::log2(x / y), 2);
    ++count;
  }
  return count == 0 ? 0.0 : std::sqrt(sum / count);
}

}  // namespace kiln
