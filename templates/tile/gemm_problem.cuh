// The arguments of a plain GEMM kernel and what such kernels share: how a block finds its tile, and where its epilogue
// writes. Member order is the order of the `struct` argument in the manifests that use it.
#pragma once

#include "ptx/types.cuh"
#include "tile/gemm_epilogue.cuh"

namespace kiln {

struct GemmProblem {
  int64_t M, N, K, batch;
  int64_t lda, ldb, ldd;                 // in elements, between rows (row layout) or columns (col layout)
  int64_t stride_a, stride_b, stride_d;  // in elements, between the matrices of a batch
  int64_t ldc, stride_c;
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

// Matrix `matrix` of the batch, for its epilogue.
template <class C>
__device__ __forceinline__ tile::EpilogueTarget<C> epilogue_target(const GemmProblem& p, typename C::d_t* d,
                                                                   const typename C::c_t* c,
                                                                   const typename C::c_t* bias, int64_t matrix) {
  typename C::d_t* const to = d + matrix * p.stride_d;
  if constexpr (tile::EpilogueOf<C>::kReadsC) {
    return {to, c + matrix * p.stride_c, bias, p.ldd, p.ldc, p.alpha, p.beta};
  } else {
    return {to, to, bias, p.ldd, p.ldd, p.alpha, p.beta};
  }
}

}  // namespace kiln
