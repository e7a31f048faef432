// RMSNorm: y[r, c] = x[r, c] · w[c] / sqrt(mean over c of x[r, c]² + eps), rows packed, sums in fp32.
//
// A block normalises ROWS rows at once, each with a team of THREADS threads (whole warps). A team reads its row in
// pieces of VEC elements, adds up the squares, and reads the row again to scale it; with KEEP it holds the row in
// registers between the two, so that x crosses device memory once even when the cache has lost it.
#pragma once

#include "ptx/types.cuh"

namespace kiln {

// VEC elements that one instruction loads or stores.
template <class T, int VEC>
struct alignas(sizeof(T) * VEC) Piece {
  T element[VEC];
};

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

// The sum over a team of WARPS warps, known to each of its threads. `partial` is the team's own.
template <int WARPS>
__device__ __forceinline__ float team_sum(float value, float* partial, int thread) {
  value = warp_sum(value);
  if constexpr (WARPS == 1) return value;
  if (thread % 32 == 0) partial[thread / 32] = value;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < WARPS; ++warp) sum += partial[warp];
  return sum;
}

template <class X, class W, class Y, int VEC>
__device__ __forceinline__ void scale_piece(const Piece<X, VEC>& x, const W* w, Y* y, long long c, float scale) {
  const auto weights = *reinterpret_cast<const Piece<W, VEC>*>(w + c);
  Piece<Y, VEC> out;
#pragma unroll
  for (int v = 0; v < VEC; ++v) {
    out.element[v] = from_float<Y>(to_float(x.element[v]) * scale * to_float(weights.element[v]));
  }
  *reinterpret_cast<Piece<Y, VEC>*>(y + c) = out;
}

template <class C>
__global__ void __launch_bounds__(C::THREADS* C::ROWS)
    rmsnorm(const typename C::x_t* x, const typename C::w_t* w, typename C::y_t* y, long long rows, float eps) {
  using X = typename C::x_t;
  constexpr int kVec = C::VEC;
  constexpr int kWarps = C::THREADS / 32;
  constexpr long long kStep = C::THREADS * kVec;
  static_assert(C::THREADS % 32 == 0, "a team is whole warps, so that shuffles stay inside it");
  static_assert(C::cols % kVec == 0, "a row is whole pieces");
  __shared__ float partial[C::ROWS][kWarps];

  const int team = threadIdx.x / C::THREADS;
  const int thread = threadIdx.x % C::THREADS;
  const long long row = static_cast<long long>(blockIdx.x) * C::ROWS + team;
  const bool inside = row < rows;  // a team past the end still takes part in the block's barrier
  const X* x_row = x + (inside ? row : 0) * C::cols;
  typename C::y_t* y_row = y + (inside ? row : 0) * C::cols;

  constexpr int kPieces = C::KEEP ? static_cast<int>(ceil_div<long long>(C::cols, kStep)) : 1;
  Piece<X, kVec> kept[kPieces];
  float sum = 0;
  const auto add = [&sum](const Piece<X, kVec>& piece) {
#pragma unroll
    for (int v = 0; v < kVec; ++v) sum = fmaf(to_float(piece.element[v]), to_float(piece.element[v]), sum);
  };
  if constexpr (C::KEEP) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const long long c = p * kStep + thread * kVec;
      if (c >= C::cols) continue;
      kept[p] = *reinterpret_cast<const Piece<X, kVec>*>(x_row + c);
      add(kept[p]);
    }
  } else {
    for (long long c = thread * kVec; c < C::cols; c += kStep) add(*reinterpret_cast<const Piece<X, kVec>*>(x_row + c));
  }

  const float scale = rsqrtf(team_sum<kWarps>(sum, partial[team], thread) / static_cast<float>(C::cols) + eps);
  if (!inside) return;
  if constexpr (C::KEEP) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const long long c = p * kStep + thread * kVec;
      if (c < C::cols) scale_piece(kept[p], w, y_row, c, scale);
    }
  } else {
    for (long long c = thread * kVec; c < C::cols; c += kStep) {
      scale_piece(*reinterpret_cast<const Piece<X, kVec>*>(x_row + c), w, y_row, c, scale);
    }
  }
}

// What is right: one thread to a row, one sum in order.
template <class C>
__global__ void __launch_bounds__(128) rmsnorm_reference(const typename C::x_t* x, const typename C::w_t* w,
                                                         typename C::y_t* y, long long rows, float eps) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (long long c = 0; c < C::cols; ++c) {
    const float value = to_float(x[row * C::cols + c]);
    sum = fmaf(value, value, sum);
  }
  const float scale = rsqrtf(sum / static_cast<float>(C::cols) + eps);
  for (long long c = 0; c < C::cols; ++c) {
    y[row * C::cols + c] = from_float<typename C::y_t>(to_float(x[row * C::cols + c]) * scale * to_float(w[c]));
  }
}

}  // namespace kiln
