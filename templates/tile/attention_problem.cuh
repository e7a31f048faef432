// What the attention kernels share: the problem as the host gives it, and which keys a query sees.
#pragma once

#include "ptx/types.cuh"

namespace kiln {

// Member order is the order of the `struct` argument in the manifests that use it.
struct AttentionProblem {
  int64_t B, H, H_kv, S_q, S_k, W;
  int64_t q_row, q_head, q_batch;  // in elements: between tokens, heads and sequences
  int64_t k_row, k_head, k_batch;
  int64_t v_row, v_head, v_batch;
  int64_t o_row, o_head, o_batch;
  float scale, cap;
};

// Query i sees the keys from first_key to before end_key; the range may be empty or even end before it begins.
template <class C, class Index>
__device__ __forceinline__ Index first_key(const AttentionProblem& p, Index query) {
  if constexpr (!C::mask_is_window) return 0;
  return query + static_cast<Index>(p.S_k - p.S_q - p.W);
}
template <class C, class Index>
__device__ __forceinline__ Index end_key(const AttentionProblem& p, Index query) {
  const Index keys = static_cast<Index>(p.S_k);
  if constexpr (C::mask_is_none) return keys;
  return min(keys, query + static_cast<Index>(p.S_k - p.S_q) + 1);
}

}  // namespace kiln
