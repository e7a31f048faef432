// What an operation is, read from ops/<op>.toml or a manifest's inline [op]: dims, dtypes, choices, operands, scalars,
// flops and bytes, and how a result is checked. Immutable after reading; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/expression.h"
#include "kiln/problem.h"

namespace kiln {

enum class ScalarType { i32, u32, i64, u64, f32 };
int size_of(ScalarType type) noexcept;

// `when`, over choices: where it is 0 a problem has no such dim, dtype or operand, and its text says nothing of one.
struct DimSpec {
  std::string name;
  std::optional<std::int64_t> min;
  std::optional<Expression> fallback;   // the default; without one the dim must be given
  bool is_stride = false;               // strides do not count in the distance between problems
  std::optional<std::int64_t> typical;  // for samples, where kernels take few values only
  std::optional<Expression> when = std::nullopt;
};

struct DTypeSpec {
  std::string name;
  std::vector<DType> values;
  std::string copy_of;  // the dtype it defaults to, may be empty
  std::optional<DType> fallback;
  std::map<DType, DType> copy_map;  // where the copied dtype is not itself the default
  std::optional<Expression> when;
};

struct ChoiceSpec {
  std::string name;
  std::vector<std::string> values;
  std::string fallback;
  // A variation of the operation, of which a problem says nothing at its default: problems with and without it may
  // answer for each other, and a template takes other values only where its manifest says that it handles the choice.
  bool omit_default = false;
};

enum class Role { in, out, inout };

struct OperandSpec {
  std::string name;
  Role role = Role::in;
  std::string dtype;  // a DTypeSpec's name
  Expression elements{0};
  // Role inout only: the operand is not read when each of these scalars has its value. Empty: it is always read.
  std::map<std::string, double> unread_when{};
  std::optional<Expression> when = std::nullopt;
  // Role inout only, over choices: where it is not 0 the operand is an output like others.
  std::optional<Expression> output_when = std::nullopt;
};

struct ScalarSpec {
  std::string name;
  ScalarType type = ScalarType::f32;
  double fallback = 0;
};

struct Requirement {
  Expression condition;
  std::string reason;
};

enum class Distribution { normal, uniform, positive, offsets };

// What a check feeds an operand.
struct CheckInput {
  Distribution distribution = Distribution::normal;
  // Of offsets only. An operand of n elements holds where each of n - 1 runs of random lengths begins, and where the
  // last one ends.
  Expression total{0};       // of all lengths, where there are runs enough for it
  Expression largest{0};     // of one length
  std::string same_as = {};  // an operand whose offsets these are too, where its total, largest and n are the same
};

// Scalars of a check, for the problems for which `when` is not 0.
struct CheckCase {
  std::optional<Expression> when;
  std::map<std::string, double> scalars;
  std::map<std::string, Expression> by_root;  // scalars that are divided by the root of an extent
};

struct CheckSpec {
  std::string dtype;      // the dtype that selects the tolerance
  std::string reference;  // a template's name; empty: the manifest brings [[check.launch]]
  std::map<std::string, DType> reference_dtypes;
  std::map<DType, double> tolerance;         // relative Frobenius error
  Expression loosen{1};                      // by what it is multiplied, where errors compound
  std::map<std::string, CheckInput> inputs;  // by operand, default normal
  std::vector<CheckCase> cases;              // those of a problem: first the one that is timed
};

struct OpSpec {
  std::string name;
  std::string summary;
  std::vector<DimSpec> dims;
  std::vector<DTypeSpec> dtypes;
  std::vector<ChoiceSpec> choices;
  std::vector<OperandSpec> operands;
  std::vector<ScalarSpec> scalars;
  std::vector<Requirement> require;
  Expression flops{0};
  Expression bytes{0};
  CheckSpec check;

  const OperandSpec* find_operand(const std::string& operand) const noexcept;
};

// Fills in every default but those that the op leaves out of a problem's text (`when`, `omit_default`), which it takes
// out, and checks names, ranges and the op's own requirements.
// Throws Error{invalid_argument}: what was wrong, the value met, what is allowed.
Problem complete(const OpSpec& op, Problem problem);
// A complete problem with what its text leaves out: every choice, dtype, alignment and dim of the op at its default.
Problem in_full(const OpSpec& op, Problem problem);
// What a person's text gives, with nothing filled in: for problems of which one dim is still open. Throws
// Error{invalid_argument} for names the op does not have and values that cannot be read.
Problem given_in_text(const OpSpec& op, const ProblemText& text);
// From a person's text, then complete(). Throws likewise.
Problem problem_from_text(const OpSpec& op, const ProblemText& text);
// Puts the problem's symbols in scope: dims, sizeof_*, *_is_*, align_*. Those of what it leaves out have their
// defaults' values.
void bind_problem(const OpSpec& op, const Problem& problem, Scope& scope);
// The names bind_problem sets for any problem of the op.
std::vector<std::string> problem_symbols(const OpSpec& op);

// Whether the problem in scope has what `when` belongs to.
bool is_present(const std::optional<Expression>& when, const Scope& scope);
// The operand's span; 0 where the problem has no such operand.
std::int64_t elements(const OperandSpec& operand, const Scope& scope);

// Floating-point operations and the fewest bytes through device memory of one call.
std::int64_t flops(const OpSpec& op, const Problem& problem);
std::int64_t bytes(const OpSpec& op, const Problem& problem);

// How unlike two problems are as far as tuning cares: root mean square of log2 ratios of the non-stride dims, with a
// factor of two for each choice that differs where `omit_default` lets it. Empty when dtypes or other choices differ
// (they never answer for each other), or one is of an earlier form of the op. `a` is complete.
std::optional<double> problem_distance(const OpSpec& op, const Problem& a, const Problem& b);

}  // namespace kiln
