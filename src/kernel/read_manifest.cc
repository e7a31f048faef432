// Reading a manifest's syntax, types and names. What depends on the op is in check_manifest.cc.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "kernel/manifest.h"
#include "kernel/read_op.h"
#include "kernel/toml_reader.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxValues = 4096;

bool is_arch(const std::string& arch) {
  if (arch.rfind("sm_", 0) != 0) return false;
  std::size_t i = 3;
  while (i < arch.size() && std::isdigit(static_cast<unsigned char>(arch[i])) != 0) ++i;
  if (i < 5 || i > 6) return false;
  const std::string suffix = arch.substr(i);
  return suffix.empty() || suffix == "a" || suffix == "f" || suffix == "+";
}

std::vector<std::string> read_arch(TomlTable& top) {
  auto arch = top.get_strings("arch");
  if (arch.empty())
    manifest_error(top.place_of("arch"), "missing; list architectures, e.g. [\"sm_80+\"] or [\"sm_90a\"]");
  for (const std::string& entry : arch) {
    if (!is_arch(entry)) {
      manifest_error(
          top.place_of("arch"),
          "'" + entry + "' is no architecture; write sm_90a (exactly that target) or sm_80+ (it and later ones)");
    }
  }
  return arch;
}

std::vector<AcceptRule> read_accept(TomlTable& top) {
  std::vector<AcceptRule> rules;
  for (TomlTable& entry : top.get_tables("accept")) {
    AcceptRule rule;
    for (const std::string& name : entry.keys()) {
      for (const std::string& value : entry.get_strings(name)) {
        if (value.rfind('=', 0) == 0) {
          rule.same_as[name] = value.substr(1);
        } else {
          rule.dtypes[name].push_back(read_dtype(value, entry.place_of(name)));
        }
      }
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<std::int64_t> read_values(const toml::node& node, const TomlPlace& place) {
  if (!node.is_array()) manifest_error(place, "expected a list of integers, found " + toml_type_name(node));
  std::vector<std::int64_t> values;
  for (const toml::node& element : *node.as_array()) {
    if (!element.is_integer()) manifest_error(place, "expected integers, found " + toml_type_name(element));
    values.push_back(element.as_integer()->get());
  }
  if (values.empty()) manifest_error(place, "has no values, so the space is empty; give at least one integer");
  if (values.size() > kMaxValues) {
    manifest_error(place, "has " + std::to_string(values.size()) + " values; at most " + std::to_string(kMaxValues) +
                              " are allowed");
  }
  if (std::set<std::int64_t>(values.begin(), values.end()).size() != values.size()) {
    manifest_error(place, "lists a value twice; each value once");
  }
  return values;
}

std::vector<ParamSpec> read_params(TomlTable& top) {
  std::vector<ParamSpec> params;
  auto table = top.get_table("params");
  if (!table) return params;
  for (const std::string& name : table->keys()) {
    require_identifier(name, table->place_of(name));
    ParamSpec param;
    param.name = name;
    const toml::node* node = table->get_node(name);
    if (node->is_table()) {
      auto entry = table->get_table(name);
      const toml::node* values = entry->get_node("values");
      if (values == nullptr) manifest_error(entry->place_of("values"), "missing; give a list of integers");
      param.values = read_values(*values, entry->place_of("values"));
      param.launch_time = entry->get_flag("launch").value_or(false);
      entry->refuse_unread();
    } else {
      param.values = read_values(*node, table->place_of(name));
    }
    params.push_back(std::move(param));
  }
  return params;
}

// Orders the lets so that each uses only what stands before it.
std::vector<LetSpec> read_lets(TomlTable& top) {
  std::vector<LetSpec> pending;
  auto table = top.get_table("let");
  if (!table) return pending;
  std::set<std::string> names;
  for (const std::string& name : table->keys()) {
    require_identifier(name, table->place_of(name));
    pending.push_back({name, *table->get_expression(name)});
    names.insert(name);
  }
  std::vector<LetSpec> ordered;
  std::set<std::string> done;
  while (!pending.empty()) {
    const auto ready = std::find_if(pending.begin(), pending.end(), [&](const LetSpec& let) {
      const auto& symbols = let.value.symbols();
      return std::all_of(symbols.begin(), symbols.end(),
                         [&](const std::string& s) { return names.count(s) == 0 || done.count(s) != 0; });
    });
    if (ready == pending.end()) {
      std::vector<std::string> left;
      for (const LetSpec& let : pending) left.push_back(let.name);
      manifest_error(table->place_of(left.front()), "defined in a circle through " + join(left, ", ") +
                                                        "; a let may only use lets that do not lead back to it");
    }
    done.insert(ready->name);
    ordered.push_back(*ready);
    pending.erase(ready);
  }
  return ordered;
}

std::vector<WorkspaceSpec> read_workspaces(TomlTable& top) {
  std::vector<WorkspaceSpec> workspaces;
  auto table = top.get_table("workspace");
  if (!table) return workspaces;
  for (const std::string& name : table->keys()) {
    auto entry = table->get_table(name);
    const auto bytes = entry->get_expression("bytes");
    if (!bytes) manifest_error(entry->place_of("bytes"), "missing; give the size in bytes as an expression");
    workspaces.push_back({name, *bytes, entry->get_flag("zero").value_or(false)});
    entry->refuse_unread();
  }
  return workspaces;
}

std::vector<Expression> read_extents(TomlTable& table, const std::string& key, std::size_t min, std::size_t max) {
  auto extents = table.get_expressions(key);
  if (extents.size() < min || extents.size() > max) {
    manifest_error(table.place_of(key), "has " + std::to_string(extents.size()) + " entries; allowed are " +
                                            std::to_string(min) + " to " + std::to_string(max));
  }
  return extents;
}

std::vector<TensorMapArg> read_tensor_maps(TomlTable& top) {
  std::vector<TensorMapArg> maps;
  auto table = top.get_table("tensor_map");
  if (!table) return maps;
  for (const std::string& name : table->keys()) {
    auto entry = table->get_table(name);
    TensorMapArg map;
    map.name = name;
    map.operand = entry->get_string("operand").value_or("");
    map.workspace = entry->get_string("workspace").value_or("");
    if (map.operand.empty() == map.workspace.empty()) {
      manifest_error(entry->place(), "needs exactly one of operand and workspace");
    }
    if (const auto dtype = entry->get_string("dtype")) {
      if (const auto fixed = parse_dtype(*dtype))
        map.dtype = *fixed;
      else
        map.op_dtype = *dtype;
    } else if (!map.workspace.empty()) {
      manifest_error(entry->place_of("dtype"), "missing; a map over a workspace needs a dtype, e.g. \"f32\"");
    }
    map.dims = read_extents(*entry, "dims", 1, 5);
    map.strides = read_extents(*entry, "strides", map.dims.size() - 1, map.dims.size() - 1);
    map.box = read_extents(*entry, "box", map.dims.size(), map.dims.size());
    map.swizzle = entry->get_expression("swizzle").value_or(Expression(0));
    map.l2_promotion = entry->get_expression("l2_promotion").value_or(Expression(0));
    entry->refuse_unread();
    maps.push_back(std::move(map));
  }
  return maps;
}

ArgSpec read_arg(TomlTable& entry, bool inside_struct) {
  ArgSpec arg;
  int kinds = 0;
  const auto named = [&](const char* key, ArgSpec::Kind kind) {
    if (const auto name = entry.get_string(key)) {
      arg.kind = kind;
      arg.name = *name;
      ++kinds;
    }
  };
  named("pointer", ArgSpec::Kind::pointer);
  named("workspace", ArgSpec::Kind::workspace);
  named("scalar", ArgSpec::Kind::scalar);
  if (!inside_struct) named("map", ArgSpec::Kind::map);
  if (const auto value = entry.get_expression("value")) {
    arg.kind = ArgSpec::Kind::value;
    arg.value = *value;
    arg.type = read_scalar_type(entry.get_string("type").value_or("i64"), entry.place_of("type"));
    if (arg.type == ScalarType::f32)
      manifest_error(entry.place_of("type"), "f32; an expression is an integer: i32, u32, i64 or u64");
    ++kinds;
  }
  if (!inside_struct && entry.has("struct")) {
    arg.kind = ArgSpec::Kind::structure;
    for (TomlTable& field : entry.get_tables("struct")) arg.fields.push_back(read_arg(field, true));
    if (arg.fields.empty()) manifest_error(entry.place_of("struct"), "has no fields");
    ++kinds;
  }
  entry.refuse_unread();
  if (kinds != 1) {
    manifest_error(entry.place(), std::string("needs exactly one of pointer, workspace, scalar, value") +
                                      (inside_struct ? "" : ", map, struct"));
  }
  return arg;
}

std::vector<LaunchSpec> read_launches(TomlTable& parent, const std::string& key) {
  std::vector<LaunchSpec> launches;
  for (TomlTable& entry : parent.get_tables(key)) {
    LaunchSpec launch;
    launch.kernel = entry.require_string("kernel");
    launch.when = entry.get_expression("when").value_or(Expression(1));
    launch.grid = read_extents(entry, "grid", 1, 3);
    launch.block = read_extents(entry, "block", 1, 3);
    launch.cluster = read_extents(entry, "cluster", 0, 3);
    launch.shared = entry.get_expression("shared").value_or(Expression(0));
    launch.pdl = entry.get_expression("pdl").value_or(Expression(0));
    for (TomlTable& arg : entry.get_tables("args")) launch.args.push_back(read_arg(arg, false));
    entry.refuse_unread();
    launches.push_back(std::move(launch));
  }
  return launches;
}

std::vector<CostConstant> read_cost_constants(TomlTable& cost) {
  std::vector<CostConstant> constants;
  auto table = cost.get_table("constants");
  if (!table) return constants;
  for (const std::string& name : table->keys()) {
    require_identifier(name, table->place_of(name));
    const std::int64_t value = *table->get_integer(name);
    if (value < 1) {
      manifest_error(table->place_of(name), "is " + std::to_string(value) +
                                                "; a constant of the cost model is at least 1, since a refit scales it "
                                                "(choose a finer unit for a small one)");
    }
    constants.push_back({name, value});
  }
  return constants;
}

Config read_default(TomlTable& top) {
  Config config;
  if (auto table = top.get_table("default")) {
    for (const std::string& name : table->keys()) config[name] = *table->get_integer(name);
  }
  return config;
}

void read_check(TomlTable& top, Manifest& manifest) {
  auto table = top.get_table("check");
  if (!table) return;
  manifest.check_reference = table->get_string("reference").value_or("");
  manifest.check_tolerance = read_tolerance(*table);
  manifest.check_launches = read_launches(*table, "launch");
  table->refuse_unread();
}

}  // namespace

const ParamSpec* Manifest::find_param(const std::string& param) const noexcept {
  for (const ParamSpec& spec : params) {
    if (spec.name == param) return &spec;
  }
  return nullptr;
}

std::set<std::string> Manifest::cost_names() const {
  std::set<std::string> names;
  for (const CostConstant& constant : cost_constants) names.insert(constant.name);
  for (const LetSpec& let : lets) {
    const auto& symbols = let.value.symbols();
    const bool depends =
        std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return names.count(s) != 0; });
    if (depends) names.insert(let.name);
  }
  return names;
}

Manifest read_manifest(const std::string& text, const std::string& file) {
  const toml::table parsed = parse_toml(text, file);
  TomlTable top(parsed, TomlPlace{file, "", 0});
  Manifest manifest;
  manifest.name = top.require_string("name");
  manifest.source = top.require_string("source");
  const toml::node* op = top.get_node("op");
  if (op == nullptr)
    manifest_error(top.place_of("op"), "missing; name an op (a file in ops/) or give it as a table [op]");
  if (op->is_table()) {
    auto table = top.get_table("op");
    manifest.inline_op = read_op_table(*table);
    manifest.op = manifest.inline_op->name;
  } else {
    manifest.op = top.require_string("op");
  }
  manifest.summary = top.get_string("summary").value_or("");
  manifest.arch = read_arch(top);
  manifest.bake = top.get_strings("bake");
  manifest.priority = static_cast<int>(top.get_integer("priority").value_or(0));
  manifest.deterministic = top.get_flag("deterministic").value_or(true);
  manifest.options = top.get_strings("options");
  manifest.handles = top.get_strings("handles");
  manifest.accept = read_accept(top);
  manifest.require_problem = read_requirements(top, "require_problem");
  manifest.params = read_params(top);
  manifest.lets = read_lets(top);
  manifest.require = read_requirements(top, "require");
  manifest.workspaces = read_workspaces(top);
  manifest.tensor_maps = read_tensor_maps(top);
  manifest.launches = read_launches(top, "launch");
  if (manifest.launches.empty())
    manifest_error(top.place_of("launch"), "missing; a template has at least one [[launch]]");
  if (auto cost = top.get_table("cost")) {
    manifest.cost_cycles = cost->get_expression("cycles");
    manifest.cost_constants = read_cost_constants(*cost);
    cost->refuse_unread();
  }
  read_check(top, manifest);
  manifest.fallback = read_default(top);
  top.refuse_unread();
  return manifest;
}

}  // namespace kiln
