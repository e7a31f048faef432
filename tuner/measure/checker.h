// Is a candidate right? For each of the op's check cases it gets fresh inputs and a poisoned output, runs, and is
// compared with what a reference kernel computes from the same inputs in higher precision. Also found: elements left
// unwritten, writes into gaps and past the ends, changed inputs, and a second run that gives other values although the
// candidate is deterministic. Not thread-safe; works in the current context.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tuner/measure/check_kernels.h"
#include "tuner/measure/loaded_kernel.h"
#include "tuner/measure/operands.h"

namespace kiln::tuner {

// Something that can be checked: a candidate, or another library.
struct Launchable {
  std::uint64_t workspace_bytes = 0;
  bool deterministic = false;  // it promises the same bits from the same inputs
  std::function<void(std::span<const CUdeviceptr> pointers, std::span<const ScalarValue> scalars, CUdeviceptr workspace,
                     CUstream stream)>
      launch;
};
Launchable launchable(const LoadedKernel& kernel);

class Checker {
 public:
  // `kernels` must outlive it. Allocates one guarded set of operands. Throws Error{out_of_memory}.
  Checker(const OpSpec& op, const Problem& problem, CheckKernels& kernels, std::uint64_t seed, CUstream stream);

  // Computes the truth of every case with `reference`, laid out for reference_problem(). Replaces an earlier truth.
  void set_reference(const LoadedKernel& reference);

  // The relative Frobenius error, the worst over cases and outputs, or why the candidate is wrong. Every case where
  // `cases` is all, else the first alone, and that once. Throws Error{launch_failed} when it does not run at all.
  enum class Cases { all, first };
  std::variant<double, Failure> check(const Launchable& candidate, double tolerance, Cases cases);

 private:
  void fill_inputs(std::size_t check_case);
  void start_output(std::size_t operand, std::size_t check_case);
  std::uint64_t seed_of(std::size_t check_case, std::size_t operand) const;
  void run(const Launchable& candidate, std::size_t check_case, CUdeviceptr workspace);
  std::variant<double, Failure> compare(std::size_t check_case, double tolerance);
  std::string other_again(const Launchable& candidate, std::size_t check_case, CUdeviceptr workspace);
  std::string disturbed(std::size_t check_case);

  const OpSpec& op_;
  CheckKernels& kernels_;
  std::uint64_t seed_;
  CUstream stream_;
  std::vector<OperandLayout> layouts_;
  std::vector<OperandLayout> reference_layouts_;
  std::vector<std::map<std::string, double>> cases_;
  std::vector<GuardedBuffer> buffers_;
  std::vector<CUdeviceptr> pointers_;
  cuda::DeviceBuffer scratch_;                                    // an input as it was, to compare with
  std::vector<std::map<std::size_t, cuda::DeviceBuffer>> truth_;  // case → output operand → values
};

}  // namespace kiln::tuner
