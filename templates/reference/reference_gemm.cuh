// The truth that GEMM kernels are checked against: D[M,N] = alpha · A[M,K] · B[K,N] + beta · D with any epilogue of the
// op, D row-major.
// Each element is one chain of fp32 fused multiply-adds in order of k, whatever the dtypes; TF32 operands are
// multiplied as the fp32 values they hold.
//
//            B tile [BK, TILE]
//                 |                 256 threads as 16 × 16; thread (ty, tx) owns the elements (ty + 16·i, tx + 16·j).
//   A tile -- D tile [TILE, TILE]   Both operand tiles are staged in shared memory as fp32, zero outside the matrices:
//   [TILE, BK]                      fma(0, 0, acc) leaves acc as it is, infinities and NaN included.
#pragma once

#include "tile/gemm_problem.cuh"

namespace kiln {

inline constexpr int kReferenceSide = 16;

// The op's words, by the math library: what is checked against it shares none of this.
template <class C>
__device__ float reference_activation(float x) {
  if (C::activation_is_relu) return x < 0.0f ? 0.0f : x;
  if (C::activation_is_gelu) return x * (0.5f + 0.5f * erff(x / sqrtf(2.0f)));
  if (C::activation_is_gelu_tanh) {
    const float u = sqrtf(2.0f / 3.14159265f) * (x + 0.044715f * x * x * x);
    return x * (0.5f + 0.5f * tanhf(u));
  }
  if (C::activation_is_silu || C::activation_is_swiglu) return x / (1.0f + expf(-x));
  return x;
}

template <class C>
__global__ void __launch_bounds__(kReferenceSide* kReferenceSide)
    reference_gemm(const typename C::a_t* a, const typename C::b_t* b, typename C::d_t* d, const typename C::c_t* c,
                   const typename C::c_t* bias, GemmProblem p) {
  constexpr int kTile = C::TILE;
  constexpr int kDepth = C::BK;
  constexpr int kThreads = kReferenceSide * kReferenceSide;
  constexpr int kPer = kTile / kReferenceSide;
  static_assert(kTile % kReferenceSide == 0, "each thread owns the same number of rows and columns");

  __shared__ float a_tile[kDepth][kTile + 1];
  __shared__ float b_tile[kDepth][kTile + 1];

  const int thread = threadIdx.x;
  const int tx = thread % kReferenceSide;
  const int ty = thread / kReferenceSide;
  const int64_t tiles_m = ceil_div<int64_t>(p.M, kTile);
  const int64_t tiles_n = ceil_div<int64_t>(p.N, kTile);

  const int64_t tile = block_in_grid();
  if (tile >= tiles_m * tiles_n * p.batch) return;

  const int64_t row_of_tiles = divide(tile, tiles_n);
  const int64_t matrix = divide(row_of_tiles, tiles_m);
  const int64_t m0 = (row_of_tiles - matrix * tiles_m) * kTile;
  const int64_t n0 = (tile - row_of_tiles * tiles_n) * kTile;
  const typename C::a_t* a_matrix = a + matrix * p.stride_a;
  const typename C::b_t* b_matrix = b + matrix * p.stride_b;
  typename C::d_t* d_matrix = d + matrix * p.stride_d;
  const typename C::c_t* c_matrix = C::addend_is_d ? nullptr : c + matrix * p.stride_c;

  float acc[kPer][kPer] = {};
  for (int64_t k0 = 0; k0 < p.K; k0 += kDepth) {
    // Neighbouring threads take neighbouring addresses: which index runs fastest follows the layout.
    for (int e = thread; e < kTile * kDepth; e += kThreads) {
      const int row = C::a_layout_is_row ? e / kDepth : e % kTile;
      const int depth = C::a_layout_is_row ? e % kDepth : e / kTile;
      const int64_t m = m0 + row;
      const int64_t k = k0 + depth;
      const bool inside = m < p.M && k < p.K;
      a_tile[depth][row] = inside ? to_float(a_matrix[C::a_layout_is_row ? m * p.lda + k : k * p.lda + m]) : 0.0f;
    }
    for (int e = thread; e < kTile * kDepth; e += kThreads) {
      const int column = C::b_layout_is_row ? e % kTile : e / kDepth;
      const int depth = C::b_layout_is_row ? e / kTile : e % kDepth;
      const int64_t n = n0 + column;
      const int64_t k = k0 + depth;
      const bool inside = n < p.N && k < p.K;
      b_tile[depth][column] = inside ? to_float(b_matrix[C::b_layout_is_row ? k * p.ldb + n : n * p.ldb + k]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
#pragma unroll
        for (int j = 0; j < kPer; ++j) {
          acc[i][j] = fmaf(a_tile[k][ty + i * kReferenceSide], b_tile[k][tx + j * kReferenceSide], acc[i][j]);
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < kPer; ++i) {
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int64_t m = m0 + ty + i * kReferenceSide;
      const int64_t n = n0 + tx + j * kReferenceSide;
      float value = p.alpha * acc[i][j];
      if (C::bias_is_n && n < p.N) value += to_float(bias[n]);
      if (C::bias_is_m && m < p.M) value += to_float(bias[m]);
      // With swiglu a gate lies in an even lane, and its input in the next.
      const float next = __shfl_down_sync(0xffffffff, value, 1);
      if (m >= p.M || n >= p.N || (C::activation_is_swiglu && tx % 2 != 0)) continue;

      const int64_t column = C::activation_is_swiglu ? n / 2 : n;
      typename C::d_t& element = d_matrix[m * p.ldd + column];
      // NOTE: beta == 0 must read neither D nor C: they may hold anything, NaN included, or be unwritten.
      float addend = 0.0f;
      if (p.beta != 0.0f && C::addend_is_d) addend = p.beta * to_float(element);
      if (p.beta != 0.0f && !C::addend_is_d) addend = p.beta * to_float(c_matrix[m * p.ldc + column]);
      if (C::activation_is_swiglu) {
        value = reference_activation<C>(value) * next + addend;
      } else if (C::addend_is_residual) {
        value = reference_activation<C>(value) + addend;
      } else {
        value = reference_activation<C>(value + addend);
      }
      element = from_float<typename C::d_t>(value);
    }
  }
}

}  // namespace kiln
