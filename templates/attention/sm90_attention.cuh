// O = softmax(scale · Q Kᵀ, masked) V, exactly, on Hopper: TMA loads, wgmma, the softmax in registers. Q, K and V are
// bf16 or f16; sums are fp32.
//
// A persistent block has one producer warpgroup and WARPGROUPS consumer warpgroups. A tile is 64 · WARPGROUPS queries
// of a head; each consumer has 64 of them and walks the keys they see, in blocks of BN from the last to the first:
//
//   - The producer, one thread, says which tile is next and loads its Q, then for each block of keys, as soon as there
//     is room, K[BN,D] and V[BN,D_v], all by TMA.
//   - A consumer issues S = Q Kᵀ of the next block and O += P V of this one together; while the second still runs, S
//     becomes P: mask, row maximum, exponentials. Then O is scaled to the new maximum.
//
// With CLUSTER the two blocks of a cluster take tiles that read the same keys: two heads of a group, or two tiles of a
// head where there is no mask. Each loads half of every block of keys and values, for both.
//
// With PACK the rows of a tile are not queries of one head, but those of all heads that share keys, in turn: few
// queries fill it, and the keys are read once for the group.
//
// P never leaves registers: it is an accumulator of the first product and the left operand of the second. With PINGPONG
// the consumers issue their products in turn, so that one multiplies while another has its exponentials. NOTE: a key
// behind the mask has the weight 0, but its V is multiplied all the same: infinities and NaN there come out. With
// cumulative lengths a load may reach into the next sequence, whose keys and values are taken out again.
#pragma once

#include "ptx/global_store.cuh"
#include "ptx/math.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/tma_multicast.cuh"
#include "ptx/wgmma.cuh"
#include "tile/attention_problem.cuh"
#include "tile/logits.cuh"
#include "tile/pipeline.cuh"
#include "tile/quad_transpose.cuh"
#include "tile/softmax.cuh"
#include "tile/wgmma_operand.cuh"

namespace kiln {

// What one launch computes; the order is that of the manifest.
struct Sm90AttentionArgs {
  int64_t o_row, o_head, o_batch;
  int32_t heads, kv_group;  // query heads; of them share one of keys
  int32_t queries, keys;
  int32_t window;
  int32_t tiles_m, heads_batch;
  int32_t section;  // heads walked together, so that what they read stays in L2
  float scale, cap;
  AttentionOffsets offsets;
  // Where blocks form clusters, heads_batch counts pairs of heads and this is 2, or tiles_m pairs of tiles and this
  // is 1.
  int32_t pair_heads;
  int32_t pack_shift;  // with PACK, log2 of the heads of a group: `heads` and heads_batch count groups then
};

template <class C>
struct Sm90AttentionConfig {
  using Input = typename C::q_t;
  using Output = typename C::o_t;
  static constexpr int kWarpgroups = C::WARPGROUPS;
  static constexpr int kRows = 64;  // of a tile, for each consumer
  static constexpr int kBM = kWarpgroups * kRows;
  static constexpr int kBN = C::BN;
  static constexpr int kStages = C::STAGES;
  static constexpr int kQStages = C::Q_STAGES;
  static constexpr int kCluster = C::CLUSTER;
  static constexpr int kSteps = (C::D + 15) / 16;           // products along D; what lies beyond it is loaded as zeros
  static constexpr int kDSlabs = (C::D + 63) / 64;          // of 128 bytes along D
  static constexpr int kColumns = (C::D_v + 15) / 16 * 16;  // of O as wgmma sees it
  static constexpr int kDvBoxes = (C::D_v + 63) / 64;       // of 64 columns of V
  static constexpr int kThreads = (1 + kWarpgroups) * 128;
  static constexpr int kProducerRegisters = kWarpgroups == 1 ? 56 : kWarpgroups == 2 ? 24 : 32;
  // A consumer stores a tile's O while the next tile's Q, and so the place after that one's, are in use.
  static constexpr int kTilePlaces = kQStages + 1;
  static constexpr int kConsumerRegisters = kWarpgroups == 1 ? 256 : kWarpgroups == 2 ? 240 : 160;
  static constexpr bool kPingpong = C::PINGPONG != 0;
  static_assert(is_same<Input, typename C::k_t> && is_same<Input, typename C::v_t>, "Q, K and V have one type");
  static_assert(kBN % 16 == 0, "a step of the second product takes 16 keys");
  static_assert(kBN / kCluster % 8 == 0, "a block's share of the keys must be whole swizzle patterns");
};

// Of the `row`-th row behind a tile's or a warpgroup's first: how many queries, and heads, it is behind the first
// one's.
template <class C>
__device__ __forceinline__ int32_t row_query(const Sm90AttentionArgs& args, int32_t row) {
  return C::PACK ? row >> args.pack_shift : row;
}
template <class C>
__device__ __forceinline__ int32_t row_head(const Sm90AttentionArgs& args, int32_t row) {
  return C::PACK ? row & ((1 << args.pack_shift) - 1) : 0;
}

// A tile of queries, and the blocks of keys that any of them sees: [block_begin, block_end), maybe none. The producer
// finds those with keys and leaves them in shared memory: the divisions would hold up every consumer, and registers are
// scarce there.
struct alignas(16) Sm90AttentionTile {
  static constexpr int32_t kNone = -1;  // the head when there are no more tiles
  int32_t head, batch;                  // with PACK, the group of heads
  int32_t first_query;
  int32_t block_begin, block_end;
  int32_t queries, keys;  // of its sequence, where that has lengths of its own
};

// Gives the arguments the lengths of the tile's sequence.
__device__ __forceinline__ void set_lengths(Sm90AttentionArgs& args, const Sm90AttentionTile& tile) {
  args.queries = tile.queries;
  args.keys = tile.keys;
}

// Dynamic shared memory, in bytes from its start.
template <class C>
struct Sm90AttentionStorage {
  using Config = Sm90AttentionConfig<C>;
  static constexpr int kQSlab = Config::kBM * tile::kSlabRowBytes;
  static constexpr int kBlockSlab = Config::kBN * tile::kSlabRowBytes;  // of K, and a box of V
  static constexpr int kQ = 0;
  static constexpr int kStageQ = Config::kDSlabs * kQSlab;
  static constexpr int kK = kQ + Config::kQStages * kStageQ;
  static constexpr int kStageK = Config::kDSlabs * kBlockSlab;
  static constexpr int kV = kK + Config::kStages * kStageK;
  static constexpr int kStageV = Config::kDvBoxes * kBlockSlab;
  static constexpr int kBarriersK = kV + Config::kStages * kStageV;
  static constexpr int kBarriersV = kBarriersK + tile::PipelineBarriers<Config::kStages>::kBytes;
  static constexpr int kBarriersQ = kBarriersV + tile::PipelineBarriers<Config::kStages>::kBytes;
  static constexpr int kTiles = kBarriersQ + tile::PipelineBarriers<Config::kQStages>::kBytes;
  static constexpr int kBytes = kTiles + Config::kTilePlaces * static_cast<int>(sizeof(Sm90AttentionTile));
  static_assert(kStageK % 1024 == 0 && kStageV % 1024 == 0, "swizzle patterns start at 1024 bytes");
  static_assert(kBytes == C::smem_bytes, "the manifest and the kernel must agree on shared memory");
};

// First and one past the last key that a query sees.
template <class C>
__device__ __forceinline__ int32_t first_key(const Sm90AttentionArgs& args, int32_t query) {
  return C::mask_is_window ? query + args.keys - args.queries - args.window : 0;
}
template <class C>
__device__ __forceinline__ int32_t end_key(const Sm90AttentionArgs& args, int32_t query) {
  return C::mask_is_none ? args.keys : min(args.keys, query + args.keys - args.queries + 1);
}

// The index of the tile, or pair of tiles, that this block computes in its `round`-th round. Each round is dealt out
// the other way round, so that a block with the longest tile of one round has the shortest of the next.
template <class C>
__device__ __forceinline__ int32_t sm90_attention_index(int32_t round) {
  const uint32_t clusters = gridDim.x / C::CLUSTER;
  const uint32_t cluster = blockIdx.x / C::CLUSTER;
  const int32_t place = (round & 1) == 0 ? cluster : clusters - 1 - cluster;
  return round * static_cast<int32_t>(clusters) + place;
}

// The index-th tile, or this block's of the index-th pair. Under a causal mask the long ones come first, so that blocks
// end together. NOTE: of a pair of tiles the second may lie behind the last query; it computes, and stores nothing.
template <class C>
__device__ __forceinline__ Sm90AttentionTile sm90_attention_tile(const Sm90AttentionArgs& args, int32_t index) {
  using Config = Sm90AttentionConfig<C>;
  const int32_t in_section = args.section * args.tiles_m;
  const int32_t section = index / in_section;
  const int32_t first_head = section * args.section;
  const int32_t heads = min(args.section, args.heads_batch - first_head);
  const int32_t place = index - section * in_section;
  int32_t m = place / heads;
  int32_t head = first_head + place - m * heads;
  if constexpr (Config::kCluster > 1) {
    const int32_t rank = static_cast<int32_t>(blockIdx.x % Config::kCluster);
    if (args.pair_heads == 2) {
      head = head * 2 + rank;
    } else {
      m = m * 2 + rank;
    }
  }

  Sm90AttentionTile tile;
  tile.batch = head / args.heads;
  tile.head = head - tile.batch * args.heads;
  const int32_t tile_queries = row_query<C>(args, Config::kBM);
  tile.first_query = (C::mask_is_none ? m : args.tiles_m - 1 - m) * tile_queries;
  if constexpr (C::lengths_is_cumulative) {
    tile.queries = args.offsets.cu_q[tile.batch + 1] - args.offsets.cu_q[tile.batch];
    tile.keys = args.offsets.cu_k[tile.batch + 1] - args.offsets.cu_k[tile.batch];
  }
  OfSequence<C, Sm90AttentionArgs> own = args;
  if constexpr (C::lengths_is_cumulative) set_lengths(own, tile);
  const int32_t last_query = min(tile.first_query + tile_queries, own.queries) - 1;
  const int32_t end = max(0, end_key<C>(own, last_query));
  tile.block_end = (end + Config::kBN - 1) / Config::kBN;
  tile.block_begin = max(0, first_key<C>(own, tile.first_query)) / Config::kBN;
  // There are tiles for the longest sequence; another one's last have nothing to do.
  if (C::lengths_is_cumulative && tile.first_query >= own.queries) tile.block_end = tile.block_begin;
  return tile;
}

// The place of a sequence in a tensor map, and the coordinates that its tokens have there. With cumulative lengths the
// place is the first of its tokens, elsewhere its index.
template <class C>
__device__ __forceinline__ int32_t map_place(const int32_t* cu, int32_t batch) {
  if constexpr (C::lengths_is_cumulative) return cu[batch];
  return batch;
}
template <class C>
__device__ __forceinline__ int32_t map_token(int32_t place, int32_t token) {
  return C::lengths_is_cumulative ? place + token : token;
}
template <class C>
__device__ __forceinline__ int32_t map_batch(int32_t place) {
  return C::lengths_is_cumulative ? 0 : place;
}

// Loads a box of keys or values at a token of a sequence, or this block's share of it for the whole cluster.
template <class C>
__device__ __forceinline__ void sm90_attention_load(uint32_t destination, const TensorMap& map, uint32_t barrier,
                                                    int32_t column, int32_t token, int32_t head, int32_t place) {
  using Config = Sm90AttentionConfig<C>;
  if constexpr (Config::kCluster == 1) {
    ptx::tma_load(destination, map, barrier, column, map_token<C>(place, token), head, map_batch<C>(place));
  } else {
    const uint32_t first = blockIdx.x % Config::kCluster * (Config::kBN / Config::kCluster);
    ptx::tma_load_multicast(destination + first * tile::kSlabRowBytes, map, barrier, column,
                            map_token<C>(place, token + first), head, map_batch<C>(place), (1 << Config::kCluster) - 1);
  }
}

// One thread loads for all tiles of this block.
template <class C>
__device__ __forceinline__ void sm90_attention_produce(const TensorMap& map_q, const TensorMap& map_k,
                                                       const TensorMap& map_v, const Sm90AttentionArgs& args,
                                                       uint32_t shared, Sm90AttentionTile* tiles) {
  using Config = Sm90AttentionConfig<C>;
  using Storage = Sm90AttentionStorage<C>;
  const tile::PipelineBarriers<Config::kStages> k_barriers{shared + Storage::kBarriersK};
  const tile::PipelineBarriers<Config::kStages> v_barriers{shared + Storage::kBarriersV};
  const tile::PipelineBarriers<Config::kQStages> q_barriers{shared + Storage::kBarriersQ};
  tile::PipelineState<Config::kStages> k_state, v_state;
  tile::PipelineState<Config::kQStages> q_state;

  // V of a block is loaded after K of the next, which is needed first.
  int32_t late_block = -1, late_head = 0, late_place = 0;
  const auto load_late_v = [&] {
    if (late_block < 0) return;
    v_barriers.wait_empty(v_state);
    const uint32_t full = v_barriers.full(v_state.stage);
    ptx::mbarrier_arrive_expect_tx(full, Storage::kStageV);
#pragma unroll
    for (int box = 0; box < Config::kDvBoxes; ++box) {
      sm90_attention_load<C>(shared + Storage::kV + v_state.stage * Storage::kStageV + box * Storage::kBlockSlab, map_v,
                             full, box * 64, late_block * Config::kBN, late_head, late_place);
    }
    v_state.advance();
  };

  ptx::griddepcontrol_wait();
  int32_t place = 0;
  const auto send = [&](const Sm90AttentionTile& tile) {
    q_barriers.wait_empty(q_state);
    tiles[place] = tile;
    place = place + 1 == Config::kTilePlaces ? 0 : place + 1;
  };
  const int32_t count = args.tiles_m * args.heads_batch;
  int32_t index = sm90_attention_index<C>(0);
  for (int32_t round = 0; index < count; index = sm90_attention_index<C>(++round)) {
    const Sm90AttentionTile tile = sm90_attention_tile<C>(args, index);
    if (tile.block_begin >= tile.block_end) continue;
    const int32_t kv_head = tile.head / args.kv_group;
    const int32_t place_q = map_place<C>(args.offsets.cu_q, tile.batch);
    const int32_t place_k = map_place<C>(args.offsets.cu_k, tile.batch);

    send(tile);
    const uint32_t q_full = q_barriers.full(q_state.stage);
    ptx::mbarrier_arrive_expect_tx(q_full, Storage::kStageQ);
#pragma unroll
    for (int slab = 0; slab < Config::kDSlabs; ++slab) {
      const uint32_t queries = shared + Storage::kQ + q_state.stage * Storage::kStageQ + slab * Storage::kQSlab;
      const int32_t token = map_token<C>(place_q, tile.first_query);
      if constexpr (C::PACK) {
        ptx::tma_load(queries, map_q, q_full, slab * 64, tile.head << args.pack_shift, token, map_batch<C>(place_q));
      } else {
        ptx::tma_load(queries, map_q, q_full, slab * 64, token, tile.head, map_batch<C>(place_q));
      }
    }
    q_state.advance();

    for (int32_t block = tile.block_end - 1; block >= tile.block_begin; --block) {
      k_barriers.wait_empty(k_state);
      const uint32_t full = k_barriers.full(k_state.stage);
      ptx::mbarrier_arrive_expect_tx(full, Storage::kStageK);
#pragma unroll
      for (int slab = 0; slab < Config::kDSlabs; ++slab) {
        sm90_attention_load<C>(shared + Storage::kK + k_state.stage * Storage::kStageK + slab * Storage::kBlockSlab,
                               map_k, full, slab * 64, block * Config::kBN, kv_head, place_k);
      }
      k_state.advance();
      load_late_v();
      late_block = block;
      late_head = kv_head;
      late_place = place_k;
    }
  }
  load_late_v();
  send({.head = Sm90AttentionTile::kNone});
  ptx::mbarrier_arrive(q_barriers.full(q_state.stage));
  // A block that ends early would take its barriers from the other, which still releases to them.
  if constexpr (Config::kCluster > 1) {
    for (int stage = 0; stage < Config::kStages; ++stage) {
      k_barriers.wait_empty(k_state);
      k_state.advance();
      v_barriers.wait_empty(v_state);
      v_state.advance();
    }
  }
}

// The head of a row of the tile.
template <class C>
__device__ __forceinline__ int32_t sm90_attention_head(const Sm90AttentionArgs& args, const Sm90AttentionTile& tile,
                                                       int32_t row) {
  return C::PACK ? (tile.head << args.pack_shift) + row_head<C>(args, row) : tile.head;
}

// The log-sum-exp of a query of the tile's sequence.
template <class C>
__device__ __forceinline__ int64_t sm90_attention_lse_row(const Sm90AttentionArgs& args, const Sm90AttentionTile& tile,
                                                          int32_t head, int32_t query) {
  if constexpr (C::lengths_is_cumulative) {
    return head * args.offsets.T_q + args.offsets.cu_q[tile.batch] + query;
  } else {
    const int32_t heads = C::PACK ? args.heads << args.pack_shift : args.heads;
    return (static_cast<int64_t>(tile.batch) * heads + head) * args.queries + query;
  }
}

// The other warps of the producer finish the tiles of this block that see no key: zeros, and the logarithm of nothing.
template <class C>
__device__ __forceinline__ void sm90_attention_clear(const Sm90AttentionArgs& args, typename C::o_t* o, float* lse) {
  using Config = Sm90AttentionConfig<C>;
  // Each query sees the key at its own place, counted from the end, if there is one.
  if (!C::lengths_is_cumulative && args.keys >= max(1, args.queries)) return;
  ptx::griddepcontrol_wait();
  const int32_t count = args.tiles_m * args.heads_batch;
  int32_t index = sm90_attention_index<C>(0);
  for (int32_t round = 0; index < count; index = sm90_attention_index<C>(++round)) {
    const Sm90AttentionTile tile = sm90_attention_tile<C>(args, index);
    if (tile.block_begin < tile.block_end) continue;
    for (int32_t row = threadIdx.x / 32 - 1; row < Config::kBM; row += 3) {
      const int32_t query = tile.first_query + row_query<C>(args, row);
      if (query >= (C::lengths_is_cumulative ? tile.queries : args.queries)) break;
      const int32_t head = sm90_attention_head<C>(args, tile, row);
      typename C::o_t* const to = o + sequence_start<C>(args.offsets.cu_q, tile.batch, args.o_batch, args.o_row) +
                                  head * args.o_head + query * args.o_row;
      for (int32_t column = threadIdx.x % 32; column < C::D_v; column += 32) {
        to[column] = from_float<typename C::o_t>(0.0f);
      }
      if constexpr (C::lse_is_stored) {
        if (threadIdx.x % 32 == 0) {
          lse[sm90_attention_lse_row<C>(args, tile, head, query)] = tile::minus_infinity();
        }
      }
    }
  }
}

// Stores the warpgroup's rows of O, from registers: 16 bytes a thread, or two fp32. `to` is the first row's place; that
// many `queries` exist from its one on.
template <class C, int Count>
__device__ __forceinline__ void sm90_attention_store(const float (&o)[Count], typename C::o_t* to,
                                                     const Sm90AttentionArgs& args, int32_t queries) {
  using Output = typename C::o_t;
  constexpr int kEights = Count / 4;  // of columns
  const int32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t row = threadIdx.x % 128 / 32 * 16 + lane / 4 + half * 8;
    const int32_t query = row_query<C>(args, row);
    Output* to_row = to + query * args.o_row;
    if constexpr (C::PACK) to_row += row_head<C>(args, row) * args.o_head;
    if constexpr (sizeof(Output) == 2) {
#pragma unroll
      for (int first = 0; first < kEights; first += 4) {
        uint32_t pairs[4] = {};
#pragma unroll
        for (int i = 0; i < 4 && first + i < kEights; ++i) {
          const int e = (first + i) * 4 + half * 2;
          pairs[i] = pack<Output>(o[e], o[e + 1]);
        }
        tile::quad_transpose(pairs);
        const int32_t column = (first + lane % 4) * 8;
        if (query < queries && column < C::D_v) {
          ptx::st_global_v4_b32(to_row + column, pairs[0], pairs[1], pairs[2], pairs[3]);
        }
      }
    } else {
      if (query >= queries) continue;
#pragma unroll
      for (int j = 0; j < kEights; ++j) {
        if (j * 8 >= C::D_v) continue;
        *reinterpret_cast<float2*>(to_row + j * 8 + lane % 4 * 2) =
            make_float2(o[j * 4 + half * 2], o[j * 4 + half * 2 + 1]);
      }
    }
  }
}

// By a consumer's warp: the stage may be filled anew, by each block that fills it.
template <int Blocks = 1, int Stages>
__device__ __forceinline__ void sm90_attention_release(const tile::PipelineBarriers<Stages>& barriers,
                                                       tile::PipelineState<Stages>& state) {
  const uint32_t lane = threadIdx.x % 32;
  if constexpr (Blocks > 1) {
    if (lane < Blocks) ptx::mbarrier_arrive_remote(barriers.empty(state.stage), lane);
  } else {
    if (lane == 0) ptx::mbarrier_arrive(barriers.empty(state.stage));
  }
  state.advance();
}

// One warpgroup computes its 64 rows of all tiles of this block.
template <class C>
struct Sm90AttentionConsumer {
  using Config = Sm90AttentionConfig<C>;
  using Storage = Sm90AttentionStorage<C>;
  using Input = typename Config::Input;
  static constexpr int kBN = Config::kBN;
  static constexpr int kColumns = Config::kColumns;
  // Barrier 0 is the block's; each consumer has one at which it awaits its turn.
  static constexpr uint32_t kTurnBarrier = 1;
  static constexpr uint32_t kTurnThreads = 256;
  // And one at which its own threads wait for each other.
  static constexpr uint32_t kOwnBarrier = kTurnBarrier + Config::kWarpgroups;

  const Sm90AttentionArgs& args;
  typename C::o_t* const o_pointer;
  float* const lse;
  const Sm90AttentionTile* const tiles;
  int32_t place = -1;  // of the tile found last
  const uint32_t warpgroup;
  const bool plain;  // the softmax scales the logits itself
  const tile::PipelineBarriers<Config::kStages> k_barriers, v_barriers;
  const tile::PipelineBarriers<Config::kQStages> q_barriers;
  const uint64_t q_descriptor, k_descriptor, v_descriptor;
  const uint32_t v_shared;
  tile::PipelineState<Config::kStages> k_state, v_state;
  tile::PipelineState<Config::kQStages> q_state;

  __device__ __forceinline__ Sm90AttentionConsumer(const Sm90AttentionArgs& args, typename C::o_t* o, float* lse,
                                                   uint32_t shared, const Sm90AttentionTile* tiles, uint32_t warpgroup)
      : args(args),
        o_pointer(o),
        lse(lse),
        tiles(tiles),
        warpgroup(warpgroup),
        plain(tile::softmax_scales<C>(args)),
        k_barriers{shared + Storage::kBarriersK},
        v_barriers{shared + Storage::kBarriersV},
        q_barriers{shared + Storage::kBarriersQ},
        q_descriptor(
            tile::operand_descriptor<true>(shared + Storage::kQ + warpgroup * Config::kRows * tile::kSlabRowBytes)),
        k_descriptor(tile::operand_descriptor<true>(shared + Storage::kK)),
        v_descriptor(tile::operand_descriptor<false, Storage::kBlockSlab>(shared + Storage::kV)),
        v_shared(shared + Storage::kV) {}

  __device__ __forceinline__ void await_turn() const {
    if constexpr (Config::kPingpong) ptx::named_barrier_sync(kTurnBarrier + warpgroup, kTurnThreads);
  }
  __device__ __forceinline__ void pass_turn() const {
    const uint32_t next = warpgroup + 1 == Config::kWarpgroups ? 0 : warpgroup + 1;
    if constexpr (Config::kPingpong) ptx::named_barrier_arrive(kTurnBarrier + next, kTurnThreads);
  }

  __device__ __forceinline__ int32_t first_query(const Sm90AttentionTile& tile) const {
    return tile.first_query + row_query<C>(args, static_cast<int32_t>(warpgroup) * Config::kRows);
  }
  __device__ __forceinline__ typename C::o_t* o_of(const Sm90AttentionTile& tile) const {
    return o_pointer + sequence_start<C>(args.offsets.cu_q, tile.batch, args.o_batch, args.o_row) +
           sm90_attention_head<C>(args, tile, 0) * args.o_head + first_query(tile) * args.o_row;
  }
  // Of a row of the tile's part that the thread holds, one thread in four.
  __device__ __forceinline__ void store_lse(const Sm90AttentionTile& tile, int half, float value) const {
    if constexpr (C::lse_is_stored) {
      const int32_t row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + half * 8;
      const int32_t query = first_query(tile) + row_query<C>(args, row);
      if (threadIdx.x % 4 == 0 && query < (C::lengths_is_cumulative ? tile.queries : args.queries)) {
        lse[sm90_attention_lse_row<C>(args, tile, sm90_attention_head<C>(args, tile, row), query)] = value;
      }
    }
  }

  // Finds the next tile, once its Q has come; false when there is none.
  __device__ __forceinline__ bool await_tile() {
    q_barriers.wait_full(q_state);
    place = place + 1 == Config::kTilePlaces ? 0 : place + 1;
    return tiles[place].head != Sm90AttentionTile::kNone;
  }

  __device__ __forceinline__ void issue_logits(float (&s)[kBN / 2]) const {
    const uint64_t queries = q_descriptor + tile::descriptor_offset(q_state.stage * Storage::kStageQ);
    const uint64_t keys = k_descriptor + tile::descriptor_offset(k_state.stage * Storage::kStageK);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < Config::kSteps; ++step) {
      const int slab = step / tile::kSlabSteps;
      const uint64_t along = tile::descriptor_k_step<true>(step % tile::kSlabSteps);
      ptx::wgmma<kBN, Input, 0, 0>(s, queries + tile::descriptor_offset(slab * Storage::kQSlab) + along,
                                   keys + tile::descriptor_offset(slab * Storage::kBlockSlab) + along, step > 0);
    }
    ptx::wgmma_commit_group();
  }

  // NOTE: in a block of values, behind the end of a sequence of its own length stand those of another. They have no
  // weight, but 0 times an infinity or a NaN is NaN: they become zeros. That can only be in the tile's first block,
  // which has its last keys. Each consumer sees to it for itself; that another does the same while its products read
  // changes nothing.
  __device__ __forceinline__ void clear_values_behind(const Sm90AttentionTile& tile, bool first) const {
    if constexpr (C::lengths_is_cumulative) {
      if (!first) return;
      const int32_t rows = tile.keys - (tile.block_end - 1) * kBN;
      if (rows >= kBN) return;
      const uint32_t values = v_shared + v_state.stage * Storage::kStageV;
#pragma unroll 1
      for (int32_t byte = rows * tile::kSlabRowBytes + threadIdx.x % 128 * 8; byte < Storage::kBlockSlab;
           byte += 128 * 8) {
#pragma unroll
        for (int box = 0; box < Config::kDvBoxes; ++box) {
          ptx::st_shared(values + box * Storage::kBlockSlab + byte, 0.0f, 0.0f);
        }
      }
      ptx::fence_proxy_async_shared();
      ptx::named_barrier_sync(kOwnBarrier + warpgroup, 128);
    }
  }

  // The tile's first block overwrites what O held.
  __device__ __forceinline__ void issue_values(float (&o)[kColumns / 2], const uint32_t (&p)[kBN / 16][4],
                                               bool first) const {
    const uint64_t values = v_descriptor + tile::descriptor_offset(v_state.stage * Storage::kStageV);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBN / 16; ++step) {
      ptx::wgmma_a<kColumns, Input, 1>(o, p[step], values + tile::descriptor_k_step<false>(step), step > 0 || !first);
    }
    ptx::wgmma_commit_group();
  }

  // Logits of the tile found last become weights; `query` is the warpgroup's first.
  __device__ __forceinline__ void weigh(float (&s)[kBN / 2], tile::RunningSoftmax& softmax, float (&scale)[2],
                                        int32_t query, int32_t block) const {
    tile::scale_logits<C>(s, args);
    OfSequence<C, Sm90AttentionArgs> own = args;
    if constexpr (C::lengths_is_cumulative) set_lengths(own, tiles[place]);
    const int32_t first = block * kBN;
    if (first + kBN > end_key<C>(own, query) ||
        (C::mask_is_window && first < first_key<C>(own, query + row_query<C>(args, Config::kRows - 1)))) {
      const int32_t lane = threadIdx.x % 32;
      const int32_t row = threadIdx.x % 128 / 32 * 16 + lane / 4;
      tile::mask_logits<C>(s, own, query + row_query<C>(args, row), query + row_query<C>(args, row + 8),
                           first + lane % 4 * 2);
    }
    softmax.update(s, plain ? args.scale * tile::kLog2E : tile::kLog2E, scale);
  }

  __device__ __forceinline__ void finish(float (&o)[kColumns / 2], const tile::RunningSoftmax& softmax,
                                         const Sm90AttentionTile& tile) const {
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = tile::row_sum(softmax.sum[half]);
      inverse[half] = sum == 0.0f ? 0.0f : ptx::rcp_approx(sum);
      const float largest = plain ? softmax.largest[half] * args.scale : softmax.largest[half];
      store_lse(tile, half, sum == 0.0f ? tile::minus_infinity() : largest + logf(sum));
    }
#pragma unroll
    for (int e = 0; e < kColumns / 2; ++e) o[e] *= inverse[e / 2 % 2];
    sm90_attention_store<C>(o, o_of(tile), args,
                            (C::lengths_is_cumulative ? tile.queries : args.queries) - first_query(tile));
  }

  __device__ __forceinline__ void run() {
    if (warpgroup + 1 == Config::kWarpgroups) pass_turn();  // the first is the first
    ptx::griddepcontrol_wait();

    float s[kBN / 2];
    uint32_t p[kBN / 16][4];
    float o[kColumns / 2];
    float scale[2];
    tile::RunningSoftmax softmax;
    if (!await_tile()) return;
    int32_t query = first_query(tiles[place]);
    int32_t block = tiles[place].block_end - 1;
    k_barriers.wait_full(k_state);
    await_turn();
    issue_logits(s);
    pass_turn();
    ptx::wgmma_wait_group<0>();
    sm90_attention_release<Config::kCluster>(k_barriers, k_state);
    ptx::fence_registers(s);
    weigh(s, softmax, scale, query, block);
    tile::pack_weights<Input>(s, p);

    int32_t done = place;  // the tile that is worked on
    bool first = true;     // nothing is in O yet
    while (true) {
      // P holds the weights of a block; with its values go the logits of the block after it.
      for (const int32_t block_begin = tiles[done].block_begin; block > block_begin;) {
        --block;
        k_barriers.wait_full(k_state);
        await_turn();
        issue_logits(s);
        v_barriers.wait_full(v_state);
        clear_values_behind(tiles[done], first);
        issue_values(o, p, first);
        pass_turn();
        ptx::wgmma_wait_group<1>();
        sm90_attention_release<Config::kCluster>(k_barriers, k_state);
        ptx::fence_registers(s);
        weigh(s, softmax, scale, query, block);
        ptx::wgmma_wait_group<0>();
        sm90_attention_release<Config::kCluster>(v_barriers, v_state);
        ptx::fence_registers(o);
#pragma unroll
        for (int e = 0; e < kColumns / 2; ++e) o[e] *= scale[e / 2 % 2];
        tile::pack_weights<Input>(s, p);
        first = false;
      }
      sm90_attention_release(q_barriers, q_state);

      // The same where the block after it is the next tile's first, and O is finished instead of scaled.
      if (!await_tile()) break;
      query = first_query(tiles[place]);
      block = tiles[place].block_end - 1;
      k_barriers.wait_full(k_state);
      await_turn();
      issue_logits(s);
      v_barriers.wait_full(v_state);
      clear_values_behind(tiles[done], first);
      issue_values(o, p, first);
      pass_turn();
      ptx::wgmma_wait_group<1>();
      sm90_attention_release<Config::kCluster>(k_barriers, k_state);
      ptx::fence_registers(s);
      const tile::RunningSoftmax finished = softmax;
      softmax = tile::RunningSoftmax();
      weigh(s, softmax, scale, query, block);
      ptx::wgmma_wait_group<0>();
      sm90_attention_release<Config::kCluster>(v_barriers, v_state);
      ptx::fence_registers(o);
      tile::pack_weights<Input>(s, p);  // first, since it leaves registers free
      finish(o, finished, tiles[done]);
      done = place;
      first = true;
    }
    v_barriers.wait_full(v_state);
    clear_values_behind(tiles[done], first);
    issue_values(o, p, first);
    ptx::wgmma_wait_group<0>();
    // The producer does not end before each stage is handed back.
    if constexpr (Config::kCluster > 1) sm90_attention_release<Config::kCluster>(v_barriers, v_state);
    ptx::fence_registers(o);
    finish(o, softmax, tiles[done]);
  }
};

template <class C>
__global__ void __launch_bounds__(Sm90AttentionConfig<C>::kThreads, 1)
    sm90_attention(const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_k,
                   const __grid_constant__ TensorMap map_v, typename C::o_t* o, float* lse,
                   const __grid_constant__ Sm90AttentionArgs args) {
  using Config = Sm90AttentionConfig<C>;
  using Storage = Sm90AttentionStorage<C>;
  extern __shared__ __align__(1024) uint8_t dynamic_shared[];
  const uint32_t shared = ptx::shared_address(dynamic_shared);
  Sm90AttentionTile* const tiles = reinterpret_cast<Sm90AttentionTile*>(dynamic_shared + Storage::kTiles);
  const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);

  if (warp == 0 && ptx::elect_one()) {
    ptx::prefetch_tensor_map(map_q);
    ptx::prefetch_tensor_map(map_k);
    ptx::prefetch_tensor_map(map_v);
    constexpr uint32_t kReleases = Config::kWarpgroups * 4;
    tile::PipelineBarriers<Config::kStages>{shared + Storage::kBarriersK}.initialize(kReleases * Config::kCluster);
    tile::PipelineBarriers<Config::kStages>{shared + Storage::kBarriersV}.initialize(kReleases * Config::kCluster);
    tile::PipelineBarriers<Config::kQStages>{shared + Storage::kBarriersQ}.initialize(kReleases);
  }
  __syncthreads();
  // Nor may a copy, or a release, of the other block come before the barriers are there.
  if constexpr (Config::kCluster > 1) {
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
  }
  ptx::griddepcontrol_launch_dependents();

  if (warp < 4) {
    ptx::setmaxnreg_dec<Config::kProducerRegisters>();
    if (warp != 0) {
      sm90_attention_clear<C>(args, o, lse);
    } else if (ptx::elect_one()) {
      sm90_attention_produce<C>(map_q, map_k, map_v, args, shared, tiles);
    }
  } else {
    ptx::setmaxnreg_inc<Config::kConsumerRegisters>();
    Sm90AttentionConsumer<C>(args, o, lse, shared, tiles, warp / 4 - 1).run();
  }
}

}  // namespace kiln
