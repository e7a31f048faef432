#include "tuner/measure/checker.h"

#include <algorithm>

#include <fmt/format.h>

#include "cuda/driver.h"
#include "kiln/error.h"

namespace kiln::tuner {
namespace {

// A workspace that a kernel wrongly takes for zeroed must not happen to be.
constexpr unsigned char kWorkspaceFill = 0xff;

std::string describe_case(const std::map<std::string, double>& scalars) {
  std::string text;
  for (const auto& [name, value] : scalars) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  return text.empty() ? "" : " (" + text + ")";
}

Failure wrong(const std::string& message) { return {.kind = FailureKind::wrong_result, .message = message, .log = {}}; }

}  // namespace

Launchable launchable(const LoadedKernel& kernel) {
  return {.workspace_bytes = kernel.workspace_bytes(),
          .deterministic = kernel.deterministic(),
          .launch = [&kernel](std::span<const CUdeviceptr> pointers, std::span<const ScalarValue> scalars,
                              CUdeviceptr workspace,
                              CUstream stream) { kernel.launch(pointers, scalars, workspace, stream); }};
}

Checker::Checker(const OpSpec& op, const Problem& problem, CheckKernels& kernels, std::uint64_t seed, CUstream stream)
    : op_(op),
      kernels_(kernels),
      seed_(seed),
      stream_(stream),
      layouts_(operand_layouts(op, problem)),
      reference_layouts_(operand_layouts(op, reference_problem(op, problem))),
      cases_(check_cases(op, problem)) {
  std::int64_t largest_input = 0;
  for (const OperandLayout& layout : layouts_) {
    buffers_.emplace_back(layout.bytes, layout.alignment);
    pointers_.push_back(layout.elements == 0 ? 0 : buffers_.back().get());
    if (layout.role == Role::in) largest_input = std::max(largest_input, layout.bytes);
  }
  scratch_ = cuda::DeviceBuffer(static_cast<std::size_t>(largest_input));
}

std::uint64_t Checker::seed_of(std::size_t check_case, std::size_t operand) const {
  return seed_ * 1'000'003 + check_case * 1009 + layouts_[operand].seeded_by;
}

void Checker::fill_inputs(std::size_t check_case) {
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    if (layouts_[i].role == Role::in) kernels_.fill(layouts_[i], pointers_[i], seed_of(check_case, i));
  }
}

void Checker::start_output(std::size_t operand, std::size_t check_case) {
  const OperandLayout& layout = layouts_[operand];
  if (layout.role == Role::out || starts_poisoned(op_.operands[operand], cases_[check_case])) {
    kernels_.poison(layout.dtype, pointers_[operand], layout.elements);
  } else {
    kernels_.fill(layout, pointers_[operand], seed_of(check_case, operand));
  }
}

void Checker::set_reference(const LoadedKernel& reference) {
  truth_.clear();
  const cuda::DeviceBuffer workspace(reference.workspace_bytes());
  for (std::size_t c = 0; c < cases_.size(); ++c) {
    std::map<std::size_t, cuda::DeviceBuffer>& outputs = truth_.emplace_back();
    fill_inputs(c);
    std::vector<CUdeviceptr> pointers = pointers_;
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      if (layouts_[i].role == Role::in || layouts_[i].elements == 0) continue;
      const OperandLayout& wide = reference_layouts_[i];
      cuda::DeviceBuffer& buffer = outputs.emplace(i, static_cast<std::size_t>(wide.bytes)).first->second;
      start_output(i, c);
      kernels_.convert(layouts_[i].dtype, pointers_[i], wide.dtype, buffer.get(), wide.elements);
      pointers[i] = buffer.get();
    }
    reference.launch(pointers, scalar_values(op_, cases_[c]), workspace.get(), stream_);
    cuda::check(cuda::driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  }
}

// Leaves the outputs as the candidate wrote them.
void Checker::run(const Launchable& candidate, std::size_t check_case, CUdeviceptr workspace) {
  const cuda::Driver& driver = cuda::driver();
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    if (layouts_[i].role != Role::in) start_output(i, check_case);
  }
  if (candidate.workspace_bytes > 0) {
    cuda::check(driver.cuMemsetD8Async(workspace, kWorkspaceFill, candidate.workspace_bytes, stream_),
                "cuMemsetD8Async");
  }
  candidate.launch(pointers_, scalar_values(op_, cases_[check_case]), workspace, stream_);
  cuda::check(driver.cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

std::variant<double, Failure> Checker::check(const Launchable& candidate, double tolerance, Cases cases) {
  GuardedBuffer workspace(static_cast<std::int64_t>(candidate.workspace_bytes), 256);
  double worst = 0;
  for (std::size_t c = 0; c < (cases == Cases::all ? cases_.size() : 1); ++c) {
    fill_inputs(c);
    for (GuardedBuffer& buffer : buffers_) buffer.arm(stream_);
    workspace.arm(stream_);
    const CUdeviceptr workspace_pointer = candidate.workspace_bytes > 0 ? workspace.get() : 0;
    run(candidate, c, workspace_pointer);

    std::string fault = disturbed(c);
    if (fault.empty() && !workspace.intact(stream_)) fault = "wrote outside its workspace";
    if (!fault.empty()) return wrong(fault + describe_case(cases_[c]));
    std::variant<double, Failure> outcome = compare(c, tolerance);
    if (std::holds_alternative<Failure>(outcome)) return outcome;
    worst = std::max(worst, std::get<double>(outcome));
    if (cases == Cases::all && candidate.deterministic) {
      fault = other_again(candidate, c, workspace_pointer);
      if (!fault.empty()) return wrong(fault + describe_case(cases_[c]));
    }
  }
  return worst;
}

// Runs the candidate on the same inputs once more.
std::string Checker::other_again(const Launchable& candidate, std::size_t check_case, CUdeviceptr workspace) {
  const cuda::Driver& driver = cuda::driver();
  std::map<std::size_t, cuda::DeviceBuffer> before;
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    if (layouts_[i].role == Role::in || layouts_[i].elements == 0) continue;
    const cuda::DeviceBuffer& copy = before.emplace(i, static_cast<std::size_t>(layouts_[i].bytes)).first->second;
    cuda::check(driver.cuMemcpyDtoDAsync(copy.get(), pointers_[i], copy.size(), stream_), "cuMemcpyDtoDAsync");
  }
  run(candidate, check_case, workspace);
  for (const auto& [i, copy] : before) {
    const OperandLayout& layout = layouts_[i];
    const Comparison same = kernels_.compare(layout.dtype, copy.get(), layout.dtype, pointers_[i], layout.elements);
    if (same.sum_sq_diff != 0 || same.first_bad_index != 0) {
      return fmt::format(
          "gave other values of {} (relative difference {:.1e}) when it ran again on the same inputs; where that is "
          "meant, say deterministic = false in its manifest",
          layout.name, same.relative_error());
    }
  }
  return {};
}

std::string Checker::disturbed(std::size_t check_case) {
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    if (!buffers_[i].intact(stream_)) return "wrote outside operand " + layouts_[i].name;
  }
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    const OperandLayout& layout = layouts_[i];
    if (layout.role != Role::in || layout.elements == 0) continue;
    kernels_.fill(layout, scratch_.get(), seed_of(check_case, i));
    const Comparison same = kernels_.compare(layout.dtype, scratch_.get(), layout.dtype, pointers_[i], layout.elements);
    if (same.sum_sq_diff != 0 || same.first_bad_index != 0) return "changed its input " + layout.name;
  }
  return {};
}

std::variant<double, Failure> Checker::compare(std::size_t check_case, double tolerance) {
  double worst = 0;
  for (const auto& [i, truth] : truth_.at(check_case)) {
    const OperandLayout& layout = layouts_[i];
    const Comparison found =
        kernels_.compare(reference_layouts_[i].dtype, truth.get(), layout.dtype, pointers_[i], layout.elements);
    const std::string where = " of " + layout.name + ", the first at index " +
                              std::to_string(found.first_bad_index == 0 ? 0 : found.first_bad_index - 1) +
                              describe_case(cases_[check_case]);
    if (found.unwritten > 0) return wrong(fmt::format("left {} elements unwritten{}", found.unwritten, where));
    if (found.wrong_poison > 0)
      return wrong(fmt::format("wrote {} elements outside the result{}", found.wrong_poison, where));
    if (found.nan_mismatch > 0) return wrong(fmt::format("{} unexpected NaN or infinity{}", found.nan_mismatch, where));
    const double error = found.relative_error();
    // Not `error > tolerance`: a NaN must not pass.
    if (!(error <= tolerance)) {
      return wrong(fmt::format("relative error {:.3g} of {} is above the tolerance {:.3g}{}", error, layout.name,
                               tolerance, describe_case(cases_[check_case])));
    }
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace kiln::tuner
