// Checking a manifest against its op: every name and symbol it uses must exist.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "kernel/manifest.h"
#include "kernel/toml_reader.h"

namespace kiln {
namespace {

using Names = std::set<std::string>;

class Checker {
 public:
  Checker(const Manifest& manifest, const OpSpec& op, const std::string& file)
      : manifest_(manifest), op_(op), file_(file) {
    for (const std::string& name : problem_symbols(op)) problem_.insert(name);
    for (const std::string& name : device_symbols()) problem_.insert(name);
  }

  void run() {
    check_dtypes();
    for (const std::string& choice : manifest_.handles) {
      require_known("handles", "choice of the op with omit_default", choice, variation_names());
    }
    for (const std::string& dim : manifest_.bake) {
      require_known("bake", "dim of the op", dim, dim_names());
    }
    for (const Requirement& r : manifest_.require_problem) {
      symbols(r.condition, problem_, "require_problem.\"" + r.condition.text() + "\"");
    }
    check_config_names();
    for (const Requirement& r : manifest_.require) symbols(r.condition, all_, "require.\"" + r.condition.text() + "\"");
    for (const WorkspaceSpec& w : manifest_.workspaces) symbols(w.bytes, all_, "workspace." + w.name + ".bytes");
    for (const TensorMapArg& map : manifest_.tensor_maps) check_map(map);
    check_launches(manifest_.launches, all_, "launch");
    check_launches(manifest_.check_launches, problem_, "check.launch");
    check_cost();
    check_default();
    check_reference();
  }

 private:
  [[noreturn]] void fail(const std::string& path, const std::string& message) const {
    manifest_error({file_, path, 0}, message);
  }

  void require_known(const std::string& path, const std::string& what, const std::string& name,
                     const Names& known) const {
    if (known.count(name) != 0) return;
    const std::vector<std::string> list(known.begin(), known.end());
    fail(path, "'" + name + "' is no " + what + did_you_mean(name, list) +
                   "; allowed: " + (list.empty() ? "none" : join(list, ", ")));
  }

  void symbols(const Expression& e, const Names& known, const std::string& path) const {
    for (const std::string& symbol : e.symbols()) {
      if (known.count(symbol) != 0) continue;
      const std::vector<std::string> list(known.begin(), known.end());
      if (cost_names_.count(symbol) != 0) {
        fail(path,
             "'" + e.text() + "' uses '" + symbol +
                 "', which is or depends on a constant of the cost model; only let and cost.cycles may use those");
      }
      fail(path, "'" + e.text() + "' uses the unknown symbol '" + symbol + "'" + did_you_mean(symbol, list) +
                     "; it must be a dim, dtype or choice of op " + op_.name +
                     ", a device symbol, a parameter or a let");
    }
  }

  Names dim_names() const {
    Names names;
    for (const DimSpec& dim : op_.dims) names.insert(dim.name);
    return names;
  }
  Names dtype_names_of_op() const {
    Names names;
    for (const DTypeSpec& dtype : op_.dtypes) names.insert(dtype.name);
    return names;
  }
  Names variation_names() const {
    Names names;
    for (const ChoiceSpec& choice : op_.choices) {
      if (choice.omit_default) names.insert(choice.name);
    }
    return names;
  }
  Names operand_names() const {
    Names names;
    for (const OperandSpec& operand : op_.operands) names.insert(operand.name);
    return names;
  }
  Names scalar_names() const {
    Names names;
    for (const ScalarSpec& scalar : op_.scalars) names.insert(scalar.name);
    return names;
  }
  Names workspace_names() const {
    Names names;
    for (const WorkspaceSpec& workspace : manifest_.workspaces) names.insert(workspace.name);
    return names;
  }

  void check_dtypes() const {
    for (std::size_t i = 0; i < manifest_.accept.size(); ++i) {
      const std::string path = "accept[" + std::to_string(i) + "]";
      for (const auto& [name, values] : manifest_.accept[i].dtypes) {
        require_known(path + "." + name, "dtype of the op", name, dtype_names_of_op());
      }
      for (const auto& [name, other] : manifest_.accept[i].same_as) {
        require_known(path + "." + name, "dtype of the op", name, dtype_names_of_op());
        require_known(path + "." + name, "dtype of the op", other, dtype_names_of_op());
      }
    }
  }

  void check_config_names() {
    all_ = problem_;
    for (const ParamSpec& param : manifest_.params) {
      if (!all_.insert(param.name).second) {
        fail("params." + param.name,
             "'" + param.name + "' is already a symbol of the op or the device; choose another name");
      }
    }
    cost_names_ = manifest_.cost_names();
    Names visible = all_;
    for (const CostConstant& constant : manifest_.cost_constants) {
      if (!visible.insert(constant.name).second) {
        fail("cost.constants." + constant.name, "'" + constant.name + "' is already a symbol; choose another name");
      }
    }
    for (const LetSpec& let : manifest_.lets) {
      symbols(let.value, visible, "let." + let.name);
      if (!visible.insert(let.name).second) {
        fail("let." + let.name, "'" + let.name + "' is already a symbol; choose another name");
      }
      if (cost_names_.count(let.name) == 0) all_.insert(let.name);
    }
    with_cost_ = std::move(visible);
  }

  void check_cost() const {
    Names used;
    for (const LetSpec& let : manifest_.lets) used.insert(let.value.symbols().begin(), let.value.symbols().end());
    if (manifest_.cost_cycles) {
      symbols(*manifest_.cost_cycles, with_cost_, "cost.cycles");
      used.insert(manifest_.cost_cycles->symbols().begin(), manifest_.cost_cycles->symbols().end());
    }
    for (const CostConstant& constant : manifest_.cost_constants) {
      if (used.count(constant.name) != 0) continue;
      fail("cost.constants." + constant.name, "'" + constant.name +
                                                  "' is used nowhere; use it in a let or in cost.cycles, "
                                                  "or remove it");
    }
  }

  void check_map(const TensorMapArg& map) const {
    const std::string path = "tensor_map." + map.name;
    if (!map.operand.empty()) require_known(path + ".operand", "operand of the op", map.operand, operand_names());
    if (!map.workspace.empty()) require_known(path + ".workspace", "workspace", map.workspace, workspace_names());
    if (map.op_dtype) require_known(path + ".dtype", "dtype", *map.op_dtype, dtype_names_of_op());
    for (const Expression& e : map.dims) symbols(e, all_, path + ".dims");
    for (const Expression& e : map.strides) symbols(e, all_, path + ".strides");
    for (const Expression& e : map.box) symbols(e, all_, path + ".box");
    symbols(map.swizzle, all_, path + ".swizzle");
    symbols(map.l2_promotion, all_, path + ".l2_promotion");
  }

  void check_arg(const ArgSpec& arg, const Names& known, const std::string& path) const {
    switch (arg.kind) {
      case ArgSpec::Kind::pointer:
        return require_known(path, "operand of the op", arg.name, operand_names());
      case ArgSpec::Kind::workspace:
        return require_known(path, "workspace", arg.name, workspace_names());
      case ArgSpec::Kind::scalar:
        return require_known(path, "scalar of the op", arg.name, scalar_names());
      case ArgSpec::Kind::value:
        return symbols(*arg.value, known, path);
      case ArgSpec::Kind::map: {
        Names maps;
        for (const TensorMapArg& map : manifest_.tensor_maps) maps.insert(map.name);
        return require_known(path, "tensor map", arg.name, maps);
      }
      case ArgSpec::Kind::structure:
        for (std::size_t i = 0; i < arg.fields.size(); ++i) {
          check_arg(arg.fields[i], known, path + ".struct[" + std::to_string(i) + "]");
        }
    }
  }

  void check_launches(const std::vector<LaunchSpec>& launches, const Names& known, const std::string& table) const {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      const LaunchSpec& launch = launches[i];
      const std::string path = table + "[" + std::to_string(i) + "]";
      symbols(launch.when, known, path + ".when");
      for (const Expression& e : launch.grid) symbols(e, known, path + ".grid");
      for (const Expression& e : launch.block) symbols(e, known, path + ".block");
      for (const Expression& e : launch.cluster) symbols(e, known, path + ".cluster");
      symbols(launch.shared, known, path + ".shared");
      symbols(launch.pdl, known, path + ".pdl");
      for (std::size_t a = 0; a < launch.args.size(); ++a) {
        check_arg(launch.args[a], known, path + ".args[" + std::to_string(a) + "]");
      }
    }
  }

  void check_default() const {
    Names params;
    for (const ParamSpec& param : manifest_.params) params.insert(param.name);
    for (const auto& [name, value] : manifest_.fallback) require_known("default." + name, "parameter", name, params);
    for (const std::string& name : params) {
      if (manifest_.fallback.count(name) == 0) {
        fail("default", "says nothing of parameter '" + name + "'; give every parameter a value");
      }
    }
  }

  // A template that is itself a reference needs none.
  void check_reference() const {
    if (manifest_.check_launches.empty() && manifest_.check_reference.empty() && op_.check.reference.empty()) {
      fail("check",
           "neither the op nor the manifest says what is right; name a reference template with `reference`, or "
           "bring a reference kernel with [[check.launch]]");
    }
    const std::string dtype = op_.check.dtype;
    if (!dtype.empty()) require_known("op.check.dtype", "dtype of the op", dtype, dtype_names_of_op());
  }

  const Manifest& manifest_;
  const OpSpec& op_;
  const std::string& file_;
  Names problem_;     // symbols known before a configuration is
  Names all_;         // … and with one
  Names cost_names_;  // the cost model's own
  Names with_cost_;   // all_ and cost_names_
};

}  // namespace

std::vector<std::string> device_symbols() {
  return {"sm_count", "smem_per_block", "smem_per_sm", "l2_bytes", "regs_per_sm", "cc", "dram_gbps", "clock_mhz"};
}

void check_against_op(const Manifest& manifest, const OpSpec& op, const std::string& file) {
  Checker(manifest, op, file).run();
}

}  // namespace kiln
