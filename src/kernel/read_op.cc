// Reading an op from ops/<op>.toml or from a manifest's inline [op].
#include "kernel/read_op.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "kiln/error.h"

namespace kiln {
namespace {

constexpr std::array kScalarTypes{
    std::pair{std::string_view("i32"), ScalarType::i32}, std::pair{std::string_view("u32"), ScalarType::u32},
    std::pair{std::string_view("i64"), ScalarType::i64}, std::pair{std::string_view("u64"), ScalarType::u64},
    std::pair{std::string_view("f32"), ScalarType::f32}};

std::string scalar_type_name(ScalarType type) {
  const auto named = std::find_if(kScalarTypes.begin(), kScalarTypes.end(),
                                  [type](const auto& entry) { return entry.second == type; });
  return std::string(named->first);
}

bool is_identifier(const std::string& name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

std::vector<DimSpec> read_dims(TomlTable& op) {
  std::vector<DimSpec> dims;
  auto table = op.get_table("dims");
  if (!table)
    manifest_error(op.place_of("dims"), "missing; an op has at least one dim, e.g. [op.dims] N = { min = 0 }");
  for (const std::string& name : table->keys()) {
    require_identifier(name, table->place_of(name));
    auto entry = table->get_table(name);
    DimSpec dim{name,  entry->get_integer("min"),     entry->get_expression("default"),
                false, entry->get_integer("typical"), entry->get_expression("when")};
    if (const auto kind = entry->get_string("kind")) {
      if (*kind != "stride") manifest_error(entry->place_of("kind"), "'" + *kind + "'; the only kind is \"stride\"");
      dim.is_stride = true;
    }
    if (dim.typical && *dim.typical < dim.min.value_or(*dim.typical)) {
      manifest_error(entry->place_of("typical"),
                     std::to_string(*dim.typical) + " is below the dim's min, " + std::to_string(*dim.min));
    }
    if (dim.when && !dim.fallback) {
      manifest_error(entry->place_of("when"), "a dim that only some problems have needs a default for the others");
    }
    entry->refuse_unread();
    dims.push_back(std::move(dim));
  }
  return dims;
}

std::vector<DTypeSpec> read_dtypes(TomlTable& op) {
  std::vector<DTypeSpec> dtypes;
  auto table = op.get_table("dtypes");
  if (!table) return dtypes;
  for (const std::string& name : table->keys()) {
    require_identifier(name, table->place_of(name));
    auto entry = table->get_table(name);
    DTypeSpec spec;
    spec.name = name;
    for (const std::string& value : entry->get_strings("values")) {
      spec.values.push_back(read_dtype(value, entry->place_of("values")));
    }
    if (const auto fallback = entry->get_string("default")) {
      if (fallback->rfind('=', 0) == 0) {
        spec.copy_of = fallback->substr(1);
      } else {
        spec.fallback = read_dtype(*fallback, entry->place_of("default"));
      }
    }
    if (auto map = entry->get_table("default_map")) {
      for (const std::string& from : map->keys()) {
        spec.copy_map[read_dtype(from, map->place_of(from))] =
            read_dtype(map->require_string(from), map->place_of(from));
      }
    }
    spec.when = entry->get_expression("when");
    entry->refuse_unread();
    const auto source = std::find_if(dtypes.begin(), dtypes.end(),
                                     [&spec](const DTypeSpec& other) { return other.name == spec.copy_of; });
    if (!spec.copy_of.empty() && source == dtypes.end()) {
      manifest_error(entry->place_of("default"), "'=" + spec.copy_of + "' names no dtype written before this one");
    }
    if (spec.values.empty()) {
      if (spec.copy_of.empty())
        manifest_error(entry->place_of("values"), "missing; list the dtypes, e.g. [\"bf16\", \"f16\"]");
      spec.values = source->values;
    }
    if (spec.fallback && std::find(spec.values.begin(), spec.values.end(), *spec.fallback) == spec.values.end()) {
      manifest_error(entry->place_of("default"),
                     "'" + std::string(to_string(*spec.fallback)) + "' is not among the values");
    }
    if (spec.when && !spec.fallback && spec.copy_of.empty()) {
      manifest_error(entry->place_of("when"), "a dtype that only some problems have needs a default for the others");
    }
    dtypes.push_back(std::move(spec));
  }
  return dtypes;
}

std::vector<ChoiceSpec> read_choices(TomlTable& op) {
  std::vector<ChoiceSpec> choices;
  auto table = op.get_table("choices");
  if (!table) return choices;
  for (const std::string& name : table->keys()) {
    require_identifier(name, table->place_of(name));
    auto entry = table->get_table(name);
    ChoiceSpec choice{name, entry->get_strings("values"), entry->get_string("default").value_or(""),
                      entry->get_flag("omit_default").value_or(false)};
    if (choice.values.empty()) manifest_error(entry->place_of("values"), "missing; list the choice's values");
    for (const std::string& value : choice.values) require_identifier(value, entry->place_of("values"));
    if (choice.fallback.empty()) choice.fallback = choice.values.front();
    if (std::find(choice.values.begin(), choice.values.end(), choice.fallback) == choice.values.end()) {
      manifest_error(entry->place_of("default"),
                     "'" + choice.fallback + "' is not among the values " + join(choice.values, ", "));
    }
    entry->refuse_unread();
    choices.push_back(std::move(choice));
  }
  return choices;
}

// Whether a scalar of type `Integer` can equal `value`. The upper bound is compared with the power of two above the
// largest value, since that value itself need not be a double.
template <class Integer>
bool is_value_of(double value) {
  const double above = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  return value == std::floor(value) && value >= static_cast<double>(std::numeric_limits<Integer>::min()) &&
         value < above;
}

bool can_hold(ScalarType type, double value) {
  switch (type) {
    case ScalarType::i32:
      return is_value_of<std::int32_t>(value);
    case ScalarType::u32:
      return is_value_of<std::uint32_t>(value);
    case ScalarType::i64:
      return is_value_of<std::int64_t>(value);
    case ScalarType::u64:
      return is_value_of<std::uint64_t>(value);
    case ScalarType::f32:
      return !std::isnan(value);  // which equals nothing, itself included
  }
  return false;
}

std::map<std::string, double> read_unread_when(TomlTable& operand, Role role, const std::vector<ScalarSpec>& scalars) {
  std::map<std::string, double> condition;
  auto table = operand.get_table("unread_when");
  if (!table) return condition;
  if (role != Role::inout) {
    manifest_error(table->place(), std::string("the operand's role is ") + (role == Role::in ? "in" : "out") +
                                       "; only one of role inout may be read or not: drop the key or change the role");
  }
  std::vector<std::string> names;
  for (const ScalarSpec& scalar : scalars) names.push_back(scalar.name);
  for (const std::string& name : table->keys()) {
    const TomlPlace place = table->place_of(name);
    const auto scalar =
        std::find_if(scalars.begin(), scalars.end(), [&name](const ScalarSpec& spec) { return spec.name == name; });
    if (scalar == scalars.end()) {
      manifest_error(place, "'" + name + "' is no scalar of the op" + did_you_mean(name, names) + "; allowed: " +
                                (names.empty() ? "none, since the op has no scalars" : join(names, ", ")));
    }
    const double value = *table->get_number(name);
    if (!can_hold(scalar->type, value)) {
      manifest_error(place, "expected a value that a scalar of type " + scalar_type_name(scalar->type) +
                                " can have, found " + toml_type_name(*table->get_node(name)));
    }
    condition[name] = value;
  }
  if (condition.empty()) {
    manifest_error(table->place(), "is empty; give scalars and their values, e.g. { beta = 0.0 }, or drop the key");
  }
  return condition;
}

std::vector<OperandSpec> read_operands(TomlTable& op, const std::vector<DTypeSpec>& dtypes,
                                       const std::vector<ScalarSpec>& scalars) {
  std::vector<OperandSpec> operands;
  auto table = op.get_table("operands");
  if (!table) manifest_error(op.place_of("operands"), "missing; an op has at least one operand, e.g. [op.operands.x]");
  for (const std::string& name : table->keys()) {
    require_identifier(name, table->place_of(name));
    auto entry = table->get_table(name);
    OperandSpec operand;
    operand.name = name;
    const std::string role = entry->require_string("role");
    if (role == "in")
      operand.role = Role::in;
    else if (role == "out")
      operand.role = Role::out;
    else if (role == "inout")
      operand.role = Role::inout;
    else
      manifest_error(entry->place_of("role"), "'" + role + "'; allowed: in, out, inout");
    operand.dtype = entry->get_string("dtype").value_or(name);
    const bool known = std::any_of(dtypes.begin(), dtypes.end(),
                                   [&operand](const DTypeSpec& dtype) { return dtype.name == operand.dtype; });
    if (!known) {
      std::vector<std::string> names;
      for (const DTypeSpec& dtype : dtypes) names.push_back(dtype.name);
      manifest_error(entry->place_of("dtype"),
                     "'" + operand.dtype + "' is no dtype of the op; allowed: " + join(names, ", "));
    }
    const auto elements = entry->get_expression("elements");
    if (!elements) manifest_error(entry->place_of("elements"), "missing; give the operand's span in elements");
    operand.elements = *elements;
    operand.unread_when = read_unread_when(*entry, operand.role, scalars);
    operand.when = entry->get_expression("when");
    operand.output_when = entry->get_expression("output_when");
    if (operand.output_when && operand.role != Role::inout) {
      manifest_error(entry->place_of("output_when"), "only an operand of role inout is sometimes an output alone");
    }
    entry->refuse_unread();
    operands.push_back(std::move(operand));
  }
  return operands;
}

std::vector<ScalarSpec> read_scalars(TomlTable& op) {
  std::vector<ScalarSpec> scalars;
  auto table = op.get_table("scalars");
  if (!table) return scalars;
  for (const std::string& name : table->keys()) {
    require_identifier(name, table->place_of(name));
    auto entry = table->get_table(name);
    scalars.push_back({name, read_scalar_type(entry->get_string("type").value_or("f32"), entry->place_of("type")),
                       entry->get_number("default").value_or(0.0)});
    entry->refuse_unread();
  }
  return scalars;
}

Distribution read_distribution(const std::string& word, const TomlPlace& place) {
  if (word == "normal") return Distribution::normal;
  if (word == "uniform") return Distribution::uniform;
  if (word == "positive") return Distribution::positive;
  manifest_error(place, "'" + word +
                            "'; allowed: normal, uniform, positive, and for offsets a table such as { kind = "
                            "\"offsets\", total = \"T\", largest = \"S\" }");
}

// { kind = "offsets", total = …, largest = …, same_as = … }
CheckInput read_offsets(TomlTable& entry, const OpSpec& spec, const OperandSpec& operand) {
  if (const std::string kind = entry.require_string("kind"); kind != "offsets") {
    manifest_error(entry.place_of("kind"), "'" + kind + "'; the only kind is \"offsets\"");
  }
  const auto dtype = std::find_if(spec.dtypes.begin(), spec.dtypes.end(),
                                  [&operand](const DTypeSpec& d) { return d.name == operand.dtype; });
  if (operand.role != Role::in || dtype->values != std::vector<DType>{DType::i32}) {
    manifest_error(entry.place(), "offsets are of an operand of role in whose only dtype is i32");
  }
  const auto total = entry.get_expression("total");
  if (!total) manifest_error(entry.place_of("total"), "missing; give what all lengths add up to");
  const auto largest = entry.get_expression("largest");
  if (!largest) manifest_error(entry.place_of("largest"), "missing; give the largest of the lengths");
  CheckInput input{.distribution = Distribution::offsets,
                   .total = *total,
                   .largest = *largest,
                   .same_as = entry.get_string("same_as").value_or("")};
  entry.refuse_unread();
  return input;
}

std::map<std::string, CheckInput> read_inputs(TomlTable& table, const OpSpec& spec) {
  std::map<std::string, CheckInput> inputs;
  for (const std::string& name : table.keys()) {
    const OperandSpec* operand = spec.find_operand(name);
    if (operand == nullptr) manifest_error(table.place_of(name), "names no operand of the op");
    if (table.get_node(name)->is_table()) {
      auto entry = table.get_table(name);
      inputs[name] = read_offsets(*entry, spec, *operand);
    } else {
      inputs[name].distribution = read_distribution(table.require_string(name), table.place_of(name));
    }
  }
  for (const auto& [name, input] : inputs) {
    if (input.same_as.empty()) continue;
    const auto other = inputs.find(input.same_as);
    if (other == inputs.end() || other->second.distribution != Distribution::offsets ||
        !other->second.same_as.empty()) {
      manifest_error(table.place_of(name),
                     "same_as names '" + input.same_as + "', which is no operand with offsets of its own");
    }
  }
  return inputs;
}

CheckSpec read_check(TomlTable& op, const OpSpec& spec) {
  CheckSpec check;
  auto table = op.get_table("check");
  if (!table) manifest_error(op.place_of("check"), "missing; say how a result is checked: reference, tolerance");
  check.dtype = table->get_string("dtype").value_or(spec.dtypes.empty() ? "" : spec.dtypes.front().name);
  check.reference = table->get_string("reference").value_or("");
  if (auto dtypes = table->get_table("reference_dtypes")) {
    for (const std::string& name : dtypes->keys()) {
      const bool known = std::any_of(spec.dtypes.begin(), spec.dtypes.end(),
                                     [&name](const DTypeSpec& dtype) { return dtype.name == name; });
      if (!known) manifest_error(dtypes->place_of(name), "names no dtype of the op");
      check.reference_dtypes[name] = read_dtype(dtypes->require_string(name), dtypes->place_of(name));
    }
  }
  check.tolerance = read_tolerance(*table);
  if (const auto loosen = table->get_expression("loosen")) check.loosen = *loosen;
  if (auto inputs = table->get_table("inputs")) check.inputs = read_inputs(*inputs, spec);
  std::map<std::string, double> defaults;
  for (const ScalarSpec& scalar : spec.scalars) defaults[scalar.name] = scalar.fallback;
  for (TomlTable& entry : table->get_tables("cases")) {
    CheckCase check_case{entry.get_expression("when"), defaults, {}};
    for (auto& [name, value] : check_case.scalars) value = entry.get_number(name).value_or(value);
    if (auto by_root = entry.get_table("by_root")) {
      for (const std::string& name : by_root->keys()) {
        if (defaults.count(name) == 0) manifest_error(by_root->place_of(name), "names no scalar of the op");
        check_case.by_root.emplace(name, *by_root->get_expression(name));
      }
    }
    entry.refuse_unread();
    check.cases.push_back(std::move(check_case));
  }
  if (check.cases.empty()) check.cases.push_back({std::nullopt, defaults, {}});
  table->refuse_unread();
  return check;
}

// Every name the op's expressions may use, in the order in which dims become known.
void check_symbols(const OpSpec& spec, const TomlPlace& place) {
  const std::vector<std::string> names = problem_symbols(spec);
  const std::set<std::string> all(names.begin(), names.end());
  for (const std::string& name : device_symbols()) {
    if (all.count(name) != 0) manifest_error(place, "'" + name + "' is a symbol of the device; choose another name");
  }
  std::set<std::string> known = all;
  for (const DimSpec& dim : spec.dims) known.erase(dim.name);
  const auto check = [&place](const Expression& e, const std::set<std::string>& allowed, const std::string& path) {
    for (const std::string& symbol : e.symbols()) {
      if (allowed.count(symbol) != 0) continue;
      TomlPlace here = place;
      here.path = place.path.empty() ? path : place.path + "." + path;
      manifest_error(here, "'" + e.text() + "' uses the unknown symbol '" + symbol + "'" +
                               did_you_mean(symbol, {allowed.begin(), allowed.end()}));
    }
  };
  for (const DimSpec& dim : spec.dims) {
    if (dim.fallback) check(*dim.fallback, known, "dims." + dim.name + ".default");
    known.insert(dim.name);
  }
  std::set<std::string> of_choices;
  for (const ChoiceSpec& choice : spec.choices) {
    for (const std::string& value : choice.values) of_choices.insert(choice.name + "_is_" + value);
  }
  const auto check_when = [&](const auto& specs, const std::string& table) {
    for (const auto& item : specs) {
      if (item.when) check(*item.when, of_choices, table + "." + item.name + ".when");
    }
  };
  check_when(spec.dims, "dims");
  check_when(spec.dtypes, "dtypes");
  check_when(spec.operands, "operands");
  for (const OperandSpec& operand : spec.operands) {
    check(operand.elements, all, "operands." + operand.name + ".elements");
    if (operand.output_when) check(*operand.output_when, of_choices, "operands." + operand.name + ".output_when");
  }
  for (const auto& [name, input] : spec.check.inputs) {
    check(input.total, all, "check.inputs." + name + ".total");
    check(input.largest, all, "check.inputs." + name + ".largest");
  }
  for (const CheckCase& check_case : spec.check.cases) {
    if (check_case.when) check(*check_case.when, all, "check.cases.when");
    for (const auto& [name, extent] : check_case.by_root) check(extent, all, "check.cases.by_root." + name);
  }
  for (const Requirement& r : spec.require) check(r.condition, all, "require.\"" + r.condition.text() + "\"");
  check(spec.flops, all, "cost.flops");
  check(spec.check.loosen, all, "check.loosen");
  check(spec.bytes, all, "cost.bytes");
}

}  // namespace

void require_identifier(const std::string& name, const TomlPlace& place) {
  if (!is_identifier(name)) {
    manifest_error(place, "'" + name + "' is not a name; use letters, digits and _, not starting with a digit");
  }
}

DType read_dtype(const std::string& name, const TomlPlace& place) {
  const auto dtype = parse_dtype(name);
  if (!dtype) manifest_error(place, "'" + name + "' is no dtype; allowed: " + std::string(dtype_names()));
  return *dtype;
}

ScalarType read_scalar_type(const std::string& name, const TomlPlace& place) {
  for (const auto& [known, type] : kScalarTypes) {
    if (known == name) return type;
  }
  manifest_error(place, "'" + name + "' is no scalar type; allowed: i32, u32, i64, u64, f32");
}

std::map<DType, double> read_tolerance(TomlTable& check) {
  std::map<DType, double> tolerance;
  if (auto table = check.get_table("tolerance")) {
    for (const std::string& name : table->keys()) {
      const double value = table->get_number(name).value_or(0.0);
      if (!(value > 0.0)) manifest_error(table->place_of(name), "must be above 0: a relative Frobenius error");
      tolerance[read_dtype(name, table->place_of(name))] = value;
    }
  }
  return tolerance;
}

std::vector<Requirement> read_requirements(TomlTable& parent, const std::string& key) {
  std::vector<Requirement> requirements;
  auto table = parent.get_table(key);
  if (!table) return requirements;
  for (const std::string& condition : table->keys()) {
    TomlPlace place = table->place_of(condition);
    place.path = table->place().path + ".\"" + condition + "\"";
    const toml::node* reason = table->get_node(condition);
    if (!reason->is_string() || reason->as_string()->get().empty()) {
      manifest_error(place, "expected the reason as a string, found " + toml_type_name(*reason) +
                                "; write \"expression\" = \"why it must hold\"");
    }
    try {
      requirements.push_back({Expression(condition), reason->as_string()->get()});
    } catch (const Error& error) {
      manifest_error(place, error.what());
    }
  }
  return requirements;
}

OpSpec read_op_table(TomlTable& table) {
  OpSpec spec;
  spec.name = table.require_string("name");
  require_identifier(spec.name, table.place_of("name"));
  spec.summary = table.get_string("summary").value_or("");
  spec.dims = read_dims(table);
  spec.dtypes = read_dtypes(table);
  spec.choices = read_choices(table);
  spec.scalars = read_scalars(table);
  spec.operands = read_operands(table, spec.dtypes, spec.scalars);
  spec.require = read_requirements(table, "require");
  if (auto cost = table.get_table("cost")) {
    spec.flops = cost->get_expression("flops").value_or(Expression(0));
    spec.bytes = cost->get_expression("bytes").value_or(Expression(0));
    cost->refuse_unread();
  }
  spec.check = read_check(table, spec);
  table.refuse_unread();
  check_symbols(spec, table.place());
  return spec;
}

OpSpec read_op(const std::string& text, const std::string& file) {
  const toml::table parsed = parse_toml(text, file);
  TomlTable table(parsed, TomlPlace{file, "", 0});
  return read_op_table(table);
}

}  // namespace kiln
