// Between Q Kᵀ and the softmax: logits as they lie in the accumulators of mma and wgmma, where each thread holds, of
// every 8 keys, 2 neighbours for each of two rows that are eight apart. `Problem` has `scale` and `cap`, and a
// first_key and an end_key of its own.
#pragma once

#include "ptx/math.cuh"
#include "ptx/types.cuh"
#include "tile/attention_problem.cuh"
#include "tile/softmax.cuh"

namespace kiln::tile {

// Turns products into logits, to be multiplied by a factor that makes them exponents of two. That is scale · log2(e),
// and nothing is done here, where it leaves the largest product the largest logit (`softmax_scales`); else log2(e).
template <class C, class Problem>
__device__ __forceinline__ bool softmax_scales(const Problem& p) {
  return !C::softcap_is_tanh && p.scale > 0.0f;
}
template <class C, int Count, class Problem>
__device__ __forceinline__ void scale_logits(float (&logits)[Count], const Problem& p) {
  if constexpr (C::softcap_is_tanh) {
    const float inner = p.scale / p.cap * 2.0f * kLog2E;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      // cap · tanh(x) = cap - 2 · cap / (1 + exp(2 x)), for x the logit over the cap.
      logits[i] = fmaf(-2.0f * p.cap, ptx::rcp_approx(1.0f + ptx::ex2_approx(logits[i] * inner)), p.cap);
    }
  } else {
    if (!softmax_scales<C>(p)) {
#pragma unroll
      for (int i = 0; i < Count; ++i) logits[i] *= p.scale;
    }
  }
}

// Takes the keys that its two queries do not see out of the thread's logits, whose first is of `key`.
template <class C, int Count, class Problem>
__device__ __forceinline__ void mask_logits(float (&logits)[Count], const Problem& p, int32_t query,
                                            int32_t second_query, int32_t key) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t begin = first_key<C>(p, half == 0 ? query : second_query) - key;
    const int32_t end = end_key<C>(p, half == 0 ? query : second_query) - key;
#pragma unroll
    for (int j = 0; j < Count / 4; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t at = j * 8 + i;
        if (at >= end || (C::mask_is_window && at < begin)) logits[j * 4 + half * 2 + i] = minus_infinity();
      }
    }
  }
}

}  // namespace kiln::tile
