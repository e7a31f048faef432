#include "kiln/operation.h"

#include <algorithm>
#include <array>

#include "cuda/driver.h"
#include "kiln/error.h"
#include "runtime/operation_impl.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxOperands = 32;
constexpr std::size_t kMaxScalars = 16;

ScalarValue to_scalar(ScalarType type, double value) {
  ScalarValue result{};
  switch (type) {
    case ScalarType::f32:
      result.f32 = static_cast<float>(value);
      break;
    case ScalarType::i32:
      result.i32 = static_cast<std::int32_t>(value);
      break;
    case ScalarType::u32:
      result.u32 = static_cast<std::uint32_t>(value);
      break;
    case ScalarType::i64:
      result.i64 = static_cast<std::int64_t>(value);
      break;
    case ScalarType::u64:
      result.u64 = static_cast<std::uint64_t>(value);
      break;
  }
  return result;
}

// Pointers through which nothing is touched may be left out at the end.
void check_counts(const OpSpec& op, const LaunchPlan& plan, std::span<void* const> pointers,
                  std::span<const double> scalars) {
  const std::size_t most = op.operands.size();
  const bool enough = pointers.size() <= most &&
                      std::none_of(plan.touched.begin() + static_cast<std::ptrdiff_t>(std::min(pointers.size(), most)),
                                   plan.touched.end(), [](bool touched) { return touched; });
  if (!enough || most > kMaxOperands) {
    throw Error(ErrorCode::invalid_argument, "op " + op.name + " takes " + std::to_string(most) + " pointers, not " +
                                                 std::to_string(pointers.size()) +
                                                 "; only operands that a problem does not have may be left out");
  }
  if ((!scalars.empty() && scalars.size() != op.scalars.size()) || op.scalars.size() > kMaxScalars) {
    throw Error(ErrorCode::invalid_argument, "op " + op.name + " takes " + std::to_string(op.scalars.size()) +
                                                 " scalars (or none, for the defaults), not " +
                                                 std::to_string(scalars.size()));
  }
}

// Whether every pointer is as aligned as the plan needs. Null is refused unless nothing is touched through it.
bool aligned(const OpSpec& op, const LaunchPlan& plan, std::span<void* const> pointers) {
  bool result = true;
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    if (!plan.touched[i]) continue;
    if (pointers[i] == nullptr) {
      throw Error(ErrorCode::invalid_argument, "op " + op.name + ": the pointer to " + op.operands[i].name +
                                                   " is null, and its matrix is not empty");
    }
    result = result && reinterpret_cast<std::uintptr_t>(pointers[i]) % plan.alignment[i] == 0;
  }
  return result;
}

}  // namespace

void Operation::Impl::call(Stream stream, const Prepared& prepared, std::span<void* const> pointers,
                           std::span<const double> scalars, void* workspace) const {
  check_counts(*op, prepared.plan, pointers, scalars);
  if (prepared.plan.launches.empty()) return;
  if (aligned(*op, prepared.plan, pointers)) return launch(stream, prepared, pointers, scalars, workspace);
  // A workspace of the caller's was sized for the aligned plan; the unaligned one uses its own.
  launch(stream, *prepare_unaligned(stream, prepared.problem, pointers), pointers, scalars, nullptr);
}

void Operation::Impl::launch(Stream stream, const Prepared& prepared, std::span<void* const> pointers,
                             std::span<const double> scalars, void* workspace) const {
  std::array<CUdeviceptr, kMaxOperands> addresses;
  std::array<ScalarValue, kMaxScalars> values;
  for (std::size_t i = 0; i < op->operands.size(); ++i) {
    addresses[i] = prepared.plan.touched[i] ? reinterpret_cast<CUdeviceptr>(pointers[i]) : 0;
  }
  for (std::size_t i = 0; i < op->scalars.size(); ++i) {
    values[i] = to_scalar(op->scalars[i].type, scalars.empty() ? op->scalars[i].fallback : scalars[i]);
  }
  auto space = reinterpret_cast<CUdeviceptr>(workspace);
  if (space == 0 && prepared.plan.workspace_bytes > 0) {
    space = workspaces.get(stream, prepared.plan.workspace_bytes);
  }
  run(prepared.plan, prepared.kernels->kernels, {addresses.data(), op->operands.size()},
      {values.data(), op->scalars.size()}, space, stream);
}

PreparedPtr Operation::Impl::prepare_unaligned(Stream stream, Problem problem, std::span<void* const> pointers) const {
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    const OperandSpec& operand = op->operands[i];
    if (problem.alignments.count(operand.name) == 0) continue;  // the problem has no such operand
    const auto address = reinterpret_cast<std::uintptr_t>(pointers[i]);
    int& alignment = problem.alignments.at(operand.name);
    while (address % static_cast<std::uintptr_t>(alignment) != 0) alignment /= 2;
    const int element = size_of(problem.dtypes.at(operand.dtype));
    if (alignment < element) {
      throw Error(ErrorCode::invalid_argument, "op " + op->name + ": the pointer to " + operand.name +
                                                   " is not a multiple of its element's " + std::to_string(element) +
                                                   " bytes");
    }
  }
  const std::lock_guard lock(unaligned_mutex);
  PreparedPtr& prepared = unaligned[problem.canonical()];
  if (prepared == nullptr) {
    refuse_in_capture(stream, "preparing for pointers less aligned than promised");
    prepared = prepare_problem(*core, problem, only_template);
  }
  return prepared;
}

void Operation::operator()(Stream stream, std::span<void* const> pointers, std::span<const double> scalars,
                           void* workspace) const {
  if (impl_->fixed == nullptr) {
    throw Error(ErrorCode::invalid_argument, "this operation was prepared over a range; pass the extent");
  }
  impl_->call(stream, *impl_->fixed, pointers, scalars, workspace);
}

void Operation::operator()(Stream stream, std::int64_t extent, std::span<void* const> pointers,
                           std::span<const double> scalars, void* workspace) const {
  if (impl_->table == nullptr) {
    throw Error(ErrorCode::invalid_argument, "this operation was prepared for one problem; it takes no extent");
  }
  impl_->call(stream, impl_->table->at(extent), pointers, scalars, workspace);
}

std::size_t Operation::workspace_bytes() const {
  return impl_->table ? impl_->table->workspace_bytes() : impl_->fixed->plan.workspace_bytes;
}

void Operation::reserve(Stream stream) const {
  if (workspace_bytes() > 0) impl_->workspaces.get(stream, workspace_bytes());
}

Provenance Operation::provenance(std::int64_t extent) const {
  const Answer& answer = impl_->table ? impl_->table->at(extent).answer : impl_->fixed->answer;
  return {.rung = answer.rung,
          .template_name = answer.kernel_template->manifest.name,
          .config = answer.config,
          .source = answer.source,
          .expected_us = answer.expected_us,
          .stale = answer.stale};
}

const Problem& Operation::problem() const { return impl_->problem; }

}  // namespace kiln
