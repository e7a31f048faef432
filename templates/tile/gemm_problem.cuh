// The arguments of a plain GEMM kernel, D = alpha · A · B + beta · D for each of `batch` matrices, and what such
// kernels share: how a block finds its tile and how one element of D is finished. Member order is the order of the
// `struct` argument in the manifests that use it.
#pragma once

#include "ptx/types.cuh"

namespace kiln {

struct GemmProblem {
  int64_t M, N, K, batch;
  int64_t lda, ldb, ldd;                 // in elements, between rows (row layout) or columns (col layout)
  int64_t stride_a, stride_b, stride_d;  // in elements, between the matrices of a batch
  float alpha, beta;
};

// A grid is at most 2^31-1 blocks wide, and a batch of tiny matrices can have more tiles: then it has several rows, and
// the last row more blocks than tiles.
__device__ __forceinline__ int64_t block_in_grid() { return int64_t{blockIdx.y} * gridDim.x + blockIdx.x; }

// Of non-negative numbers. Most fit in 32 bits, where a division is several times cheaper.
__device__ __forceinline__ int64_t divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

// NOTE: beta == 0 must not read D: it may hold anything, NaN included, or be unwritten.
template <class D>
__device__ __forceinline__ D finish_element(float acc, float alpha, float beta, const D& old) {
  const float scaled = alpha * acc;
  return from_float<D>(beta == 0.0f ? scaled : fmaf(beta, to_float(old), scaled));
}

}  // namespace kiln
