// The running softmax of a block of rows, as it lies in wgmma's accumulators: each thread holds two rows (`half` 0 and
// 1, eight apart), four neighbouring threads share them. Logits stay as they come; `factor` turns them into exponents
// of two.
#pragma once

#include "ptx/math.cuh"
#include "ptx/types.cuh"

namespace kiln::tile {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

// Over the four threads that share a row.
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

struct RunningSoftmax {
  float largest[2] = {minus_infinity(), minus_infinity()};  // logit so far
  float sum[2] = {0.0f, 0.0f};                              // of this thread's exponentials, relative to `largest`

  // Turns the logits of a further block into exponentials; returns what earlier results are to be multiplied by.
  // A row that has seen no key yet has the largest logit 0 for the purpose, so that its exponentials are 0 and not NaN.
  template <int Count>
  __device__ __forceinline__ void update(float (&logits)[Count], float factor, float (&scale)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float found = logits[half * 2];
#pragma unroll
      for (int i = 0; i < Count; i += 4) found = fmaxf(found, fmaxf(logits[i + half * 2], logits[i + half * 2 + 1]));
      const float before = largest[half];
      largest[half] = fmaxf(before, row_max(found));
      const float base = largest[half] == minus_infinity() ? 0.0f : largest[half];
      scale[half] = ptx::ex2_approx((before - base) * factor);
      float offset = base * factor;
      // The fused form below rounds `offset` alone, which would show in the result once logits are huge.
      if (__any_sync(0xffffffff, fabsf(offset) > 2048.0f)) {
#pragma unroll
        for (int i = 0; i < Count; i += 4) {
          logits[i + half * 2] -= base;
          logits[i + half * 2 + 1] -= base;
        }
        offset = 0.0f;
      }
      float added = 0.0f;
#pragma unroll
      for (int i = 0; i < Count; i += 4) {
#pragma unroll
        for (int e = i + half * 2; e < i + half * 2 + 2; ++e) {
          logits[e] = ptx::ex2_approx(fmaf(logits[e], factor, -offset));
          added += logits[e];
        }
      }
      sum[half] = fmaf(sum[half], scale[half], added);
    }
  }
};

// Exponentials as the A operand of a product over 16 keys: step `t` (a constant once unrolled) of Count / 8.
template <class T, int Count>
__device__ __forceinline__ void pack_weights(const float (&weights)[Count], uint32_t (&packed)[Count / 8][4]) {
#pragma unroll
  for (int t = 0; t < Count / 8; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[t][i] = pack<T>(weights[t * 8 + i * 2], weights[t * 8 + i * 2 + 1]);
  }
}

}  // namespace kiln::tile
