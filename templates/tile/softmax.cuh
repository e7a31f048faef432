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
  // Both rows go together, each in `kChains` chains of operations: an SM has so few of these warps that a single chain
  // would leave its units idle.
  template <int Count>
  __device__ __forceinline__ void update(float (&logits)[Count], float factor, float (&scale)[2]) {
    constexpr int kChains = 2;
    static_assert(Count % (4 * kChains) == 0);
    float found[2][kChains];
#pragma unroll
    for (int i = 0; i < Count; i += 4) {
      const int chain = i / 4 % kChains;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float pair = fmaxf(logits[i + half * 2], logits[i + half * 2 + 1]);
        found[half][chain] = i < 4 * kChains ? pair : fmaxf(found[half][chain], pair);
      }
    }
    float base[2], offset[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float before = largest[half];
      largest[half] = fmaxf(before, row_max(fmaxf(found[half][0], found[half][1])));
      base[half] = largest[half] == minus_infinity() ? 0.0f : largest[half];
      scale[half] = ptx::ex2_approx((before - base[half]) * factor);
      offset[half] = base[half] * factor;
    }
    // The fused form below rounds `offset` alone, which would show in the result once logits are huge.
    if (__any_sync(0xffffffff, fmaxf(fabsf(offset[0]), fabsf(offset[1])) > 2048.0f)) {
#pragma unroll
      for (int i = 0; i < Count; ++i) logits[i] -= base[i / 2 % 2];
      offset[0] = offset[1] = 0.0f;
    }
    float added[2][kChains] = {};
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const int half = i / 2 % 2;
      logits[i] = ptx::ex2_approx(fmaf(logits[i], factor, -offset[half]));
      added[half][i % kChains] += logits[i];
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) sum[half] = fmaf(sum[half], scale[half], added[half][0] + added[half][1]);
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
