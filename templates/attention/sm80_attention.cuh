// O = softmax(scale · Q Kᵀ, masked) V, exactly, on the tensor cores by mma.sync, for every GPU from sm_80 on; for every
// head dimension up to 256 and every alignment. Q, K and V are bf16 or f16; sums are fp32.
//
// A block computes BM queries of a head, each of its WARPS warps BM / WARPS of them, and walks the keys they see in
// blocks of BN, from the last to the first:
//
//   global ── cp.async ──▶ shared: Q of the tile, STAGES blocks of K and of V ── ldmatrix ──▶ registers
//   S = Q Kᵀ ──▶ mask, row maximum, exponentials: P ──▶ O = O scaled to the new maximum + P V     (mma.sync)
//
// S, P and O never leave registers: an accumulator of the first product is the left operand of the second. A block of V
// arrives while the logits of its keys are computed, the next block of K while they become weights and meet V; more
// stages fetch further ahead. NOTE: a key behind the mask has the weight 0, but its V is multiplied all the same:
// infinities and NaN there come out.
#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "tile/attention_problem.cuh"
#include "tile/logits.cuh"
#include "tile/padded_rows_sm80.cuh"
#include "tile/softmax.cuh"

namespace kiln {

// How the launch walks the problem; the order is that of the manifest.
struct Sm80AttentionWalk {
  int32_t tiles_m, heads_batch;
  int32_t section;   // heads walked together, so that what they read stays in L2
  int32_t vector_o;  // every row of O starts at, and is, whole units of 16 bytes
};

template <class C>
struct Sm80AttentionConfig {
  using Input = typename C::q_t;
  using Output = typename C::o_t;
  static constexpr int kBM = C::BM, kBN = C::BN, kStages = C::STAGES;
  static constexpr int kThreads = C::WARPS * 32;
  static constexpr int kWarpRows = kBM / C::WARPS;
  static constexpr int kRowBlocks = kWarpRows / 16;  // of one mma
  static constexpr int kD = C::D, kDv = C::D_v;
  static constexpr int kSteps = (kD + 15) / 16;          // products along D
  static constexpr int kColumns = (kDv + 15) / 16 * 16;  // of O as mma sees it

  // O leaves by way of Q's place.
  using Q = tile::PaddedRows<Input, kBM, kD, (kD > kDv ? kD : kDv)>;
  using K = tile::PaddedRows<Input, kBN, kD>;
  using V = tile::PaddedRows<Input, kBN, kDv>;

  // Dynamic shared memory, in bytes from its start.
  static constexpr int kSharedK = Q::kBytes;
  static constexpr int kSharedV = kSharedK + kStages * K::kBytes;
  static constexpr int kSharedBytes = kSharedV + kStages * V::kBytes;

  static_assert(is_same<Input, typename C::k_t> && is_same<Input, typename C::v_t>, "Q, K and V have one type");
  static_assert(kRowBlocks * 16 * C::WARPS == kBM, "the warps must cover the tile exactly");
  static_assert(kBN % 32 == 0, "fragments of 16 keys alternate between two sets of registers");
  static_assert(kSharedBytes == C::smem_bytes, "the manifest and the kernel must agree on shared memory");
};

// A tile of queries, and the blocks of keys that any of them sees: [block_begin, block_end), maybe none.
struct Sm80AttentionTile {
  int32_t head, batch;
  int32_t first_query;
  int32_t block_begin, block_end;
};

// The index-th tile. Under a causal mask the long ones come first, so that the GPU does not end on one of them.
template <class C>
__device__ __forceinline__ Sm80AttentionTile sm80_attention_tile(const AttentionProblem& all,
                                                                 const Sm80AttentionWalk& walk,
                                                                 const AttentionOffsets& offsets, int32_t index) {
  using Config = Sm80AttentionConfig<C>;
  const int32_t section = index / (walk.section * walk.tiles_m);
  const int32_t first_head = section * walk.section;
  const int32_t heads = min(walk.section, walk.heads_batch - first_head);
  const int32_t place = index - section * (walk.section * walk.tiles_m);
  const int32_t m = place / heads;
  const int32_t head = first_head + place - m * heads;

  Sm80AttentionTile tile;
  tile.batch = head / static_cast<int32_t>(all.H);
  tile.head = head - tile.batch * static_cast<int32_t>(all.H);
  OfSequence<C, AttentionProblem> p = all;
  if constexpr (C::lengths_is_cumulative) set_lengths(p, offsets, tile.batch);
  tile.first_query = (C::mask_is_none ? m : walk.tiles_m - 1 - m) * Config::kBM;
  const int32_t last_query = min(tile.first_query + Config::kBM, static_cast<int32_t>(p.S_q)) - 1;
  tile.block_end = ceil_div(max(0, end_key<C>(p, last_query)), Config::kBN);
  tile.block_begin = max(0, first_key<C>(p, tile.first_query)) / Config::kBN;
  return tile;
}

// The accumulators of 8 columns, among those of more.
template <int Count>
__device__ __forceinline__ float (&eight_columns(float (&accumulators)[Count], int block))[4] {
  return *reinterpret_cast<float(*)[4]>(&accumulators[block * 4]);
}

// S = Q Kᵀ for a warp's queries and a block of keys. `q` and `k` are this lane's addresses. Fragments of K are read one
// step ahead.
template <class C>
__device__ __forceinline__ void sm80_attention_logits(
    float (&s)[Sm80AttentionConfig<C>::kRowBlocks][Sm80AttentionConfig<C>::kBN / 2], uint32_t q, uint32_t k) {
  using Config = Sm80AttentionConfig<C>;
  constexpr int kGroups = Config::kBN / 16;
#pragma unroll
  for (int row_block = 0; row_block < Config::kRowBlocks; ++row_block) {
#pragma unroll
    for (int i = 0; i < Config::kBN / 2; ++i) s[row_block][i] = 0.0f;
  }
  uint32_t keys[2][4];
  ptx::ldmatrix_x4(keys[0], k);
  // Unrolled whole, the compiler would read further ahead than there are registers.
#pragma unroll 2
  for (int step = 0; step < Config::kSteps; ++step) {
    uint32_t queries[Config::kRowBlocks][4];
#pragma unroll
    for (int row_block = 0; row_block < Config::kRowBlocks; ++row_block) {
      ptx::ldmatrix_x4(queries[row_block], q + Config::Q::at(row_block * 16, step * 16));
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int next = group + 1;
      if (next < kGroups || step + 1 < Config::kSteps) {
        ptx::ldmatrix_x4(keys[next % 2], k + Config::K::at(next % kGroups * 16, (step + next / kGroups) * 16));
      }
      const uint32_t low[2] = {keys[group % 2][0], keys[group % 2][1]};
      const uint32_t high[2] = {keys[group % 2][2], keys[group % 2][3]};
#pragma unroll
      for (int row_block = 0; row_block < Config::kRowBlocks; ++row_block) {
        ptx::mma<typename Config::Input>(eight_columns(s[row_block], group * 2), queries[row_block], low);
        ptx::mma<typename Config::Input>(eight_columns(s[row_block], group * 2 + 1), queries[row_block], high);
      }
    }
  }
}

// O += P V, P being what the softmax has left in `s`. `v` is this lane's address.
template <class C>
__device__ __forceinline__ void sm80_attention_values(
    float (&o)[Sm80AttentionConfig<C>::kRowBlocks][Sm80AttentionConfig<C>::kColumns / 2],
    const float (&s)[Sm80AttentionConfig<C>::kRowBlocks][Sm80AttentionConfig<C>::kBN / 2], uint32_t v) {
  using Config = Sm80AttentionConfig<C>;
  constexpr int kGroups = Config::kColumns / 16;
  constexpr int kSteps = Config::kBN / 16;
  uint32_t values[2][4];
  ptx::ldmatrix_x4_trans(values[0], v);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    uint32_t weights[Config::kRowBlocks][4];
#pragma unroll
    for (int row_block = 0; row_block < Config::kRowBlocks; ++row_block) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        weights[row_block][i] =
            pack<typename Config::Input>(s[row_block][step * 8 + i * 2], s[row_block][step * 8 + i * 2 + 1]);
      }
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int now = step * kGroups + group;
      const int next = now + 1;
      if (next < kSteps * kGroups) {
        ptx::ldmatrix_x4_trans(values[next % 2], v + Config::V::at(next / kGroups * 16, next % kGroups * 16));
      }
      const uint32_t low[2] = {values[now % 2][0], values[now % 2][1]};
      const uint32_t high[2] = {values[now % 2][2], values[now % 2][3]};
#pragma unroll
      for (int row_block = 0; row_block < Config::kRowBlocks; ++row_block) {
        ptx::mma<typename Config::Input>(eight_columns(o[row_block], group * 2), weights[row_block], low);
        ptx::mma<typename Config::Input>(eight_columns(o[row_block], group * 2 + 1), weights[row_block], high);
      }
    }
  }
}

// Stores 16 rows of O, of which the tile has `rows`. `staging` is 16 rows of Q's place that only this warp still uses.
template <class C, int Count>
__device__ __forceinline__ void sm80_attention_store(const float (&o)[Count], typename C::o_t* to, int64_t row_stride,
                                                     bool vector, uint8_t* staging, int32_t rows) {
  using Config = Sm80AttentionConfig<C>;
  using Output = typename Config::Output;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  if constexpr (sizeof(Output) == 2) {
    if (vector) {
#pragma unroll
      for (int j = 0; j < Count / 4; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint8_t* const place = staging + Config::Q::at(lane / 4 + half * 8, j * 8 + lane % 4 * 2);
          *reinterpret_cast<uint32_t*>(place) = pack<Output>(o[j * 4 + half * 2], o[j * 4 + half * 2 + 1]);
        }
      }
      __syncwarp();
      constexpr int kUnits = (Config::kDv + 7) / 8;  // of 16 bytes in a row
#pragma unroll
      for (int i = 0; i < (16 * kUnits + 31) / 32; ++i) {
        const int32_t unit = i * 32 + lane;
        const int32_t row = unit / kUnits;
        const int32_t column = unit % kUnits * 8;
        if (row >= min(rows, 16)) continue;
        *reinterpret_cast<uint4*>(to + row * row_stride + column) =
            *reinterpret_cast<const uint4*>(staging + Config::Q::at(row, column));
      }
      return;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t row = lane / 4 + half * 8;
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < Count / 4; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t column = j * 8 + lane % 4 * 2 + i;
        if (column < Config::kDv) to[row * row_stride + column] = from_float<Output>(o[j * 4 + half * 2 + i]);
      }
    }
  }
}

template <class C>
__global__ void __launch_bounds__(Sm80AttentionConfig<C>::kThreads)
    sm80_attention(const typename C::q_t* q, const typename C::k_t* k, const typename C::v_t* v, typename C::o_t* o,
                   float* lse, const AttentionProblem all, const Sm80AttentionWalk walk,
                   const AttentionOffsets offsets) {
  using Config = Sm80AttentionConfig<C>;
  constexpr int kBN = Config::kBN;
  constexpr int kStages = Config::kStages;
  constexpr int kRowBlocks = Config::kRowBlocks;
  constexpr int kColumns = Config::kColumns;
  extern __shared__ __align__(16) uint8_t dynamic_shared[];
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(dynamic_shared));
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;

  const Sm80AttentionTile tile = sm80_attention_tile<C>(all, walk, offsets, static_cast<int32_t>(blockIdx.x));
  OfSequence<C, AttentionProblem> p = all;
  if constexpr (C::lengths_is_cumulative) set_lengths(p, offsets, tile.batch);
  if (C::lengths_is_cumulative && tile.first_query >= p.S_q) return;  // the grid is made for the longest sequence
  const int64_t kv_head = tile.head / static_cast<int32_t>(p.H / p.H_kv);
  const typename Config::Input* const k_head =
      k + sequence_start<C>(offsets.cu_k, tile.batch, p.k_batch, p.k_row) + kv_head * p.k_head;
  const typename Config::Input* const v_head =
      v + sequence_start<C>(offsets.cu_k, tile.batch, p.v_batch, p.v_row) + kv_head * p.v_head;
  // Past the last block there is nothing to copy; the count of groups stays in step.
  const auto fetch_k = [&](int32_t block, int stage) {
    if (block >= tile.block_begin) {
      Config::K::template copy<Config::kThreads, C::COPY>(shared + Config::kSharedK + stage * Config::K::kBytes, k_head,
                                                          p.k_row, int64_t{block} * kBN, p.S_k);
    }
    ptx::cp_async_commit();
  };
  const auto fetch_v = [&](int32_t block, int stage) {
    if (block >= tile.block_begin) {
      Config::V::template copy<Config::kThreads, C::COPY>(shared + Config::kSharedV + stage * Config::V::kBytes, v_head,
                                                          p.v_row, int64_t{block} * kBN, p.S_k);
    }
    ptx::cp_async_commit();
  };

  float o_sums[kRowBlocks][kColumns / 2] = {};
  tile::RunningSoftmax softmax[kRowBlocks];
  const bool plain = tile::softmax_scales<C>(p);
  const float factor = plain ? p.scale * tile::kLog2E : tile::kLog2E;
  const int32_t first_query = tile.first_query + warp * Config::kWarpRows;
  if (tile.block_begin < tile.block_end) {
    const typename Config::Input* const q_head =
        q + sequence_start<C>(offsets.cu_q, tile.batch, p.q_batch, p.q_row) + tile.head * p.q_head;
    Config::Q::template copy<Config::kThreads, C::COPY>(shared, q_head, p.q_row, tile.first_query, p.S_q);
    fetch_k(tile.block_end - 1, 0);
#pragma unroll
    for (int ahead = 1; ahead < kStages; ++ahead) {
      fetch_v(tile.block_end - ahead, ahead - 1);
      fetch_k(tile.block_end - 1 - ahead, ahead);
    }
  }

  int stage = 0;
#pragma unroll 1
  for (int32_t block = tile.block_end - 1; block >= tile.block_begin; --block) {
    const int before = stage == 0 ? kStages - 1 : stage - 1;
    // The keys have landed, for all threads; and none reads the values of the block before this one any more.
    ptx::cp_async_wait<2 * (kStages - 1)>();
    __syncthreads();
    fetch_v(block - (kStages - 1), before);
    float s[kRowBlocks][kBN / 2];
    sm80_attention_logits<C>(s, shared + Config::Q::at(warp * Config::kWarpRows, 0) + Config::Q::lane_of_rows(),
                             shared + Config::kSharedK + stage * Config::K::kBytes + Config::K::lane_of_columns());

    // The values have landed; and none reads the keys any more.
    ptx::cp_async_wait<2 * (kStages - 1)>();
    __syncthreads();
    fetch_k(block - kStages, stage);
#pragma unroll
    for (int row_block = 0; row_block < kRowBlocks; ++row_block) {
      const int32_t query = first_query + row_block * 16;
      const int32_t key = block * kBN;
      tile::scale_logits<C>(s[row_block], p);
      if (key + kBN > end_key<C>(p, query) || (C::mask_is_window && key < first_key<C>(p, query + 15))) {
        tile::mask_logits<C>(s[row_block], p, query + lane / 4, query + lane / 4 + 8, key + lane % 4 * 2);
      }
      float scale[2];
      softmax[row_block].update(s[row_block], factor, scale);
#pragma unroll
      for (int e = 0; e < kColumns / 2; ++e) o_sums[row_block][e] *= scale[e / 2 % 2];
    }
    sm80_attention_values<C>(o_sums, s,
                             shared + Config::kSharedV + stage * Config::V::kBytes + Config::V::lane_of_transposed());
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }

  // NOTE: read anew: what the loop does not need must not hold registers through it.
  int32_t index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  const Sm80AttentionTile done = sm80_attention_tile<C>(all, walk, offsets, index);
  OfSequence<C, AttentionProblem> done_p = all;
  if constexpr (C::lengths_is_cumulative) set_lengths(done_p, offsets, done.batch);
  const int32_t done_query = done.first_query + warp * Config::kWarpRows;
  const int64_t head_row = lse_start<C>(done_p, offsets, done.batch, done.head);
#pragma unroll
  for (int row_block = 0; row_block < kRowBlocks; ++row_block) {
    const int32_t query = done_query + row_block * 16;
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = tile::row_sum(softmax[row_block].sum[half]);
      inverse[half] = sum == 0.0f ? 0.0f : 1.0f / sum;
      if constexpr (C::lse_is_stored) {
        const int32_t row = query + lane / 4 + half * 8;
        if (lane % 4 == 0 && row < done_p.S_q) {
          const float largest = softmax[row_block].largest[half] * (plain ? all.scale : 1.0f);
          lse[head_row + row] = sum == 0.0f ? tile::minus_infinity() : largest + logf(sum);
        }
      }
    }
#pragma unroll
    for (int e = 0; e < kColumns / 2; ++e) o_sums[row_block][e] *= inverse[e / 2 % 2];
    sm80_attention_store<C>(o_sums[row_block],
                            o + sequence_start<C>(offsets.cu_q, done.batch, all.o_batch, all.o_row) +
                                done.head * all.o_head + query * all.o_row,
                            all.o_row, walk.vector_o != 0,
                            dynamic_shared + Config::Q::at(warp * Config::kWarpRows + row_block * 16, 0),
                            static_cast<int32_t>(done_p.S_q) - query);
  }
}

}  // namespace kiln
