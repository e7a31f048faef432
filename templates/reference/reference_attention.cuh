// The truth that attention kernels are checked against: the logits of a few queries at a time are kept whole, in fp32,
// then normalised by their maximum and their sum, then multiplied by V. Nothing is rounded below fp32.
#pragma once

#include "tile/attention_problem.cuh"

namespace kiln {

inline constexpr int kReferenceThreads = 256;

// The combination of every thread's value, given to all. `scratch` holds one float for each warp.
template <class Combine>
__device__ __forceinline__ float reference_reduce(float value, float* scratch, Combine combine) {
  for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffff, value, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int warp = 1; warp < kReferenceThreads / 32; ++warp) value = combine(value, scratch[warp]);
  return value;
}

template <class C>
__global__ void __launch_bounds__(kReferenceThreads)
    reference_attention(const typename C::q_t* q, const typename C::k_t* k, const typename C::v_t* v,
                        typename C::o_t* o, float* lse, float* logits, const AttentionProblem all,
                        const AttentionOffsets offsets) {
  constexpr int kRows = C::ROWS;
  constexpr int kD = C::D;
  constexpr int kDv = C::D_v;
  __shared__ float queries[kRows][kD];
  __shared__ float scratch[kReferenceThreads / 32];
  const float infinity = __int_as_float(0x7f800000);

  float* const kept = logits + blockIdx.x * kRows * all.S_k;
  const int64_t groups = ceil_div<int64_t>(all.S_q, kRows);
  for (int64_t work = blockIdx.x; work < groups * all.H * all.B; work += gridDim.x) {
    const int64_t group = work % groups;
    const int64_t head = work / groups % all.H;
    const int64_t batch = work / groups / all.H;
    const int64_t kv_head = head / (all.H / all.H_kv);
    const int64_t first = group * kRows;
    OfSequence<C, AttentionProblem> p = all;
    if constexpr (C::lengths_is_cumulative) set_lengths(p, offsets, batch);
    if (C::lengths_is_cumulative && first >= p.S_q) continue;
    const typename C::q_t* q_head = q + sequence_start<C>(offsets.cu_q, batch, p.q_batch, p.q_row) + head * p.q_head;
    const typename C::k_t* k_head = k + sequence_start<C>(offsets.cu_k, batch, p.k_batch, p.k_row) + kv_head * p.k_head;
    const typename C::v_t* v_head = v + sequence_start<C>(offsets.cu_k, batch, p.v_batch, p.v_row) + kv_head * p.v_head;
    typename C::o_t* o_head = o + sequence_start<C>(offsets.cu_q, batch, p.o_batch, p.o_row) + head * p.o_head;

    __syncthreads();
    for (int e = threadIdx.x; e < kRows * kD; e += kReferenceThreads) {
      const int64_t row = first + e / kD;
      queries[e / kD][e % kD] = row < p.S_q ? to_float(q_head[row * p.q_row + e % kD]) : 0.0f;
    }
    __syncthreads();

    for (int64_t key = threadIdx.x; key < p.S_k; key += kReferenceThreads) {
      float sums[kRows] = {};
      for (int d = 0; d < kD; ++d) {
        const float x = to_float(k_head[key * p.k_row + d]);
#pragma unroll
        for (int r = 0; r < kRows; ++r) sums[r] = fmaf(queries[r][d], x, sums[r]);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const bool seen = key >= first_key<C>(p, first + r) && key < end_key<C>(p, first + r);
        float logit = sums[r] * p.scale;
        if constexpr (C::softcap_is_tanh) logit = p.cap * tanhf(logit / p.cap);
        kept[r * p.S_k + key] = seen ? logit : -infinity;
      }
    }
    __syncthreads();

    for (int r = 0; r < kRows && first + r < p.S_q; ++r) {
      float* const row = kept + r * p.S_k;
      float largest = -infinity;
      for (int64_t key = threadIdx.x; key < p.S_k; key += kReferenceThreads) {
        // NOTE: fmaxf drops a NaN, and a NaN among the logits must come out.
        largest = row[key] > largest || row[key] != row[key] ? row[key] : largest;
      }
      largest = reference_reduce(largest, scratch, [](float a, float b) {
        return a != a ? a : b != b ? b : fmaxf(a, b);
      });
      const float base = largest == -infinity ? 0.0f : largest;
      float sum = 0.0f;
      for (int64_t key = threadIdx.x; key < p.S_k; key += kReferenceThreads) {
        row[key] = expf(row[key] - base);
        sum += row[key];
      }
      sum = reference_reduce(sum, scratch, [](float a, float b) { return a + b; });
      const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
      for (int64_t key = threadIdx.x; key < p.S_k; key += kReferenceThreads) row[key] *= inverse;
      if constexpr (C::lse_is_stored) {
        if (threadIdx.x == 0)
          lse[lse_start<C>(p, offsets, batch, head) + first + r] = sum == 0.0f ? -infinity : base + logf(sum);
      }
    }
    __syncthreads();

    for (int d = threadIdx.x; d < kDv; d += kReferenceThreads) {
      float sums[kRows] = {};
      for (int64_t key = 0; key < p.S_k; ++key) {
        const float x = to_float(v_head[key * p.v_row + d]);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          // A key that is not seen has no weight, whatever its value is.
          const float weight = kept[r * p.S_k + key];
          if (weight != 0.0f) sums[r] = fmaf(weight, x, sums[r]);
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int64_t row = first + r;
        if (row < p.S_q) o_head[row * p.o_row + d] = from_float<typename C::o_t>(sums[r]);
      }
    }
  }
}

}  // namespace kiln
