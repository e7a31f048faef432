// A template's manifest, read and checked. See templates/README.md for the format. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/expression.h"
#include "kernel/op_spec.h"
#include "kiln/config.h"

namespace kiln {

struct ParamSpec {
  std::string name;
  std::vector<std::int64_t> values;
  bool launch_time = false;  // not compiled in
};

struct LetSpec {
  std::string name;
  Expression value;
};

// A number of the cost model that a refit may change: see `kiln model refit`.
struct CostConstant {
  std::string name;
  std::int64_t value = 1;  // at least 1
};

struct WorkspaceSpec {
  std::string name;
  Expression bytes{0};
  bool zero = false;
};

struct TensorMapArg {
  std::string name;
  std::string operand;  // exactly one of operand and workspace is set
  std::string workspace;
  std::optional<std::string> op_dtype;  // a dtype of the op …
  std::optional<DType> dtype;           // … or a fixed one; neither: the operand's
  std::vector<Expression> dims;
  std::vector<Expression> strides;
  std::vector<Expression> box;
  Expression swizzle{0};
  Expression l2_promotion{0};
};

struct ArgSpec {
  enum class Kind { pointer, map, workspace, value, scalar, structure };
  Kind kind = Kind::value;
  std::string name;                   // operand, tensor map, workspace or scalar
  std::optional<Expression> value;    // kind value
  ScalarType type = ScalarType::i64;  // kind value
  std::vector<ArgSpec> fields;        // kind structure
};

struct LaunchSpec {
  std::string kernel;  // a template over the baked struct
  Expression when{1};
  std::vector<Expression> grid;  // 1 to 3
  std::vector<Expression> block;
  std::vector<Expression> cluster;
  Expression shared{0};
  Expression pdl{0};
  std::vector<ArgSpec> args;
};

struct AcceptRule {
  std::map<std::string, std::vector<DType>> dtypes;
  std::map<std::string, std::string> same_as;  // dtype → dtype it must equal
};

struct Manifest {
  std::string name;
  std::string op;
  std::string source;  // file name beside the manifest
  std::string summary;
  std::vector<std::string> arch;
  std::vector<std::string> bake;
  int priority = 0;
  bool deterministic = true;         // the same inputs give the same bits, run after run
  std::vector<std::string> handles;  // omit_default choices of the op that it takes at other values than the default
  std::vector<AcceptRule> accept;
  std::vector<Requirement> require_problem;
  std::vector<ParamSpec> params;  // in the order written
  std::vector<LetSpec> lets;      // in an order in which each uses only what stands before it
  std::vector<Requirement> require;
  std::vector<WorkspaceSpec> workspaces;
  std::vector<TensorMapArg> tensor_maps;
  std::vector<LaunchSpec> launches;
  std::optional<Expression> cost_cycles;
  std::vector<CostConstant> cost_constants;  // in the order written
  std::string check_reference;               // overrides the op's
  std::map<DType, double> check_tolerance;   // overrides the op's
  std::vector<LaunchSpec> check_launches;    // [[check.launch]]: a reference kept in the same source
  Config fallback;                           // [default]
  std::vector<std::string> options;          // further NVRTC options
  std::optional<OpSpec> inline_op;           // [op] as a table

  const ParamSpec* find_param(const std::string& param) const noexcept;
  // What is the cost model's alone: the constants, and every let that depends on one. Never compiled in, nor part of
  // the digest, so that a refit leaves cubins and trials as they are.
  std::set<std::string> cost_names() const;
};

// Reads an op file. Every Error{invalid_manifest} reads "file: table.key: what, the value met, what is allowed".
OpSpec read_op(const std::string& text, const std::string& file);

// Reads a manifest's syntax, types and names (not yet against its op). Throws Error{invalid_manifest}.
Manifest read_manifest(const std::string& text, const std::string& file);

// Checks a manifest against its op: symbols of every expression, operands, scalars, dtypes, the default configuration.
// Throws Error{invalid_manifest}.
void check_against_op(const Manifest& manifest, const OpSpec& op, const std::string& file);

// The symbols of the device an expression may use.
std::vector<std::string> device_symbols();

}  // namespace kiln
