// What a problem's operands look like in memory, from its op alone: sizes, roles, how they are filled, what a check
// feeds them. Knows no particular op. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernel/launch_plan.h"
#include "kernel/op_spec.h"

namespace kiln::tuner {

// How long runs of a random length are: see random_offsets.
struct OffsetBounds {
  std::int64_t total = 0;
  std::int64_t largest = 0;
  bool operator==(const OffsetBounds&) const = default;
};

struct OperandLayout {
  std::string name;
  Role role = Role::in;
  DType dtype = DType::f32;
  Distribution distribution = Distribution::normal;
  OffsetBounds offsets;       // of Distribution::offsets
  std::size_t seeded_by = 0;  // the operand whose seed fills it: its own place, or that of one with the same offsets
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  int alignment = 16;  // what the problem promises of the pointer
};

// In the op's order.
std::vector<OperandLayout> operand_layouts(const OpSpec& op, const Problem& problem);

// The bytes of one set of operands.
std::int64_t set_bytes(const std::vector<OperandLayout>& layouts);

// True when the outputs hold no element: such a problem needs no launch.
bool computes_nothing(const std::vector<OperandLayout>& layouts);

// The problem that the reference solves: the same with the op's reference dtypes.
Problem reference_problem(const OpSpec& op, const Problem& problem);

// The scalars of each check of `problem`, every scalar named; one case of defaults where the op lists none for it.
std::vector<std::map<std::string, double>> check_cases(const OpSpec& op, const Problem& problem);

// One value for each scalar of the op, in its order; those not in `values` take their default.
std::vector<ScalarValue> scalar_values(const OpSpec& op, const std::map<std::string, double>& values);

// Whether `operand` starts a check with these scalars as poison. An output does; so does one of role inout where the op
// says that it is not read with them.
bool starts_poisoned(const OperandSpec& operand, const std::map<std::string, double>& scalars);

// The largest relative Frobenius error that a right kernel of template `manifest` may show on this problem: the
// manifest's or the op's tolerance for the dtype named by check.dtype (default: the first output's), and never less
// than what rounding to an output's dtype costs. Throws Error{invalid_manifest} where neither names the dtype.
double tolerance(const Manifest& manifest, const OpSpec& op, const Problem& problem);

// How many sets to rotate over so that a launch finds none of its operands in an L2 of `l2_bytes`: together at least
// three times the L2 and at least two, bounded by `budget_bytes`; 1 when warm. Never less than 1.
int rotation_sets(std::int64_t bytes_per_set, std::int64_t l2_bytes, std::int64_t budget_bytes, bool cold);

}  // namespace kiln::tuner
