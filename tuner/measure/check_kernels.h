// The kernels that fill, poison and compare, for whatever dtypes a problem has: templates/check/check.cuh,
// instantiated. Building the request needs no GPU; CheckKernels runs what was compiled. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <cuda.h>

#include "cuda/device.h"
#include "cuda/library.h"
#include "cuda/memory.h"
#include "jit/compile.h"
#include "kernel/op_spec.h"
#include "tuner/measure/layout.h"

namespace kiln::tuner {

// One unit with every check kernel that problems of these dtypes need, for `device`.
jit::CompileRequest check_kernels_request(const OpSpec& op, const Problem& problem, const cuda::DeviceInfo& device);

// What check::compare found.
struct Comparison {
  double sum_sq_diff = 0;
  double sum_sq_ref = 0;
  unsigned long long wrong_poison = 0;
  unsigned long long unwritten = 0;
  unsigned long long nan_mismatch = 0;
  unsigned long long first_bad_index = 0;  // 1 + the index; 0: none

  // ‖difference‖ / ‖reference‖; where the reference is all zeros, ‖difference‖.
  double relative_error() const;
};

// Every call is queued on `stream`; compare() waits for its answer.
class CheckKernels {
 public:
  // Throws Error{launch_failed}, {not_found}.
  CheckKernels(const std::string& cubin, std::map<std::string, std::string> symbols, int sm_count, CUstream stream);

  // Random values by the operand's distribution; the same seed gives the same values.
  void fill(const OperandLayout& operand, CUdeviceptr to, std::uint64_t seed);
  void poison(DType dtype, CUdeviceptr to, std::int64_t elements);
  void convert(DType from_dtype, CUdeviceptr from, DType to_dtype, CUdeviceptr to, std::int64_t elements);
  Comparison compare(DType ref_dtype, CUdeviceptr ref, DType out_dtype, CUdeviceptr out, std::int64_t elements);

 private:
  void fill_offsets(const OperandLayout& operand, CUdeviceptr to, std::uint64_t seed);
  void launch(const std::string& name_expression, std::int64_t elements, void** arguments);

  cuda::Library library_;
  std::map<std::string, std::string> symbols_;
  unsigned max_blocks_;
  CUstream stream_;
  cuda::DeviceBuffer result_;
};

}  // namespace kiln::tuner
