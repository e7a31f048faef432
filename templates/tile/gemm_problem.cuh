// The arguments of a plain GEMM kernel, D = alpha · A · B + beta · D for each of `batch` matrices, and how one element of
// D is finished. Member order is the order of the `struct` argument in the manifests that use it.
#pragma once

#include "ptx/types.cuh"

namespace kiln {

struct GemmProblem {
  int64_t M, N, K, batch;
  int64_t lda, ldb, ldd;                 // in elements, between rows (row layout) or columns (col layout)
  int64_t stride_a, stride_b, stride_d;  // in elements, between the matrices of a batch
  float alpha, beta;
};

// NOTE: beta == 0 must not read D: it may hold anything, NaN included, or be unwritten.
template <class D>
__device__ __forceinline__ D finish_element(float acc, float alpha, float beta, const D& old) {
  const float scaled = alpha * acc;
  return from_float<D>(beta == 0.0f ? scaled : fmaf(beta, to_float(old), scaled));
}

}  // namespace kiln
