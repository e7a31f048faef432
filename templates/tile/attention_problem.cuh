// What the attention kernels share: the problem as the host gives it, where a sequence lies in it, and which keys a
// query sees.
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

// Where sequences have lengths of their own (C::lengths_is_cumulative), sequence b has the tokens from cu[b] to before
// cu[b + 1] of operands of which all sequences share one token axis; elsewhere unused. Member order as above.
struct AttentionOffsets {
  const int32_t* cu_q;
  const int32_t* cu_k;
  int64_t T_q;  // tokens of all sequences together
};

// What holds for one sequence: a reference to what holds for all of them or, where lengths are cumulative, a copy that
// set_lengths gives its own. NOTE: an alias, since the reference as the result of a function leaves worse code.
template <bool kCopy, class Problem>
struct SequenceProblem {
  using Type = const Problem&;
};
template <class Problem>
struct SequenceProblem<true, Problem> {
  using Type = Problem;
};
template <class C, class Problem>
using OfSequence = typename SequenceProblem<C::lengths_is_cumulative, Problem>::Type;

__device__ __forceinline__ void set_lengths(AttentionProblem& p, const AttentionOffsets& offsets, int64_t batch) {
  p.S_q = offsets.cu_q[batch + 1] - offsets.cu_q[batch];
  p.S_k = offsets.cu_k[batch + 1] - offsets.cu_k[batch];
}

// Elements from the start of an operand to the first token of a sequence.
template <class C>
__device__ __forceinline__ int64_t sequence_start(const int32_t* cu, int64_t batch, int64_t batch_stride,
                                                  int64_t row_stride) {
  if constexpr (C::lengths_is_cumulative) return cu[batch] * row_stride;
  return batch * batch_stride;
}
// The same of the packed log-sum-exp of a head.
template <class C, class Index>
__device__ __forceinline__ int64_t lse_start(const AttentionProblem& p, const AttentionOffsets& offsets, Index batch,
                                             Index head) {
  if constexpr (C::lengths_is_cumulative) return head * offsets.T_q + offsets.cu_q[batch];
  return (static_cast<int64_t>(batch) * p.H + head) * p.S_q;
}

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
