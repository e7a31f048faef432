// D[M,N] = alpha · A[M,K] · B[K,N] + beta · D for each matrix of a batch, on Hopper: TMA loads, wgmma, fp32
// accumulators. A and B are bf16 or f16, either way round in memory, or tf32 with K contiguous; D is bf16, f16 or f32.
//
// A persistent block has one producer warpgroup and WARPGROUPS consumer warpgroups. It walks tiles of BM × BN; for each
//
//   producer (one thread)   each block of BK:  wait empty → TMA loads A[BM,BK] and B[BK,BN] → they complete full
//   consumer warpgroup      each block of BK:  wait full → wgmma on its rows of the tile → release the block before
//                           then the epilogue, while the producer already loads for the next tile
//
// With PINGPONG the two consumer warpgroups take whole tiles in turn, so that one multiplies while the other stores.
//
// The blocks of a cluster of CLUSTER_M × CLUSTER_N take neighbouring tiles; each loads its share of what they have in
// common and multicasts it. wgmma is 64 rows high: with SWAP_AB the rows are B's columns, so that a small M costs what
// it is worth and not 64, and the accumulators hold Dᵀ. Where tiles are few and K is long, several blocks share a
// tile's K: the CLUSTER_K blocks of a cluster, which add up through distributed shared memory, or SPLIT blocks
// anywhere, which write partial sums to a workspace for sm90_gemm_reduce to add up. Either way the order of addition is
// fixed.
#pragma once

#include "ptx/setmaxnreg.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/types.cuh"
#include "ptx/wgmma.cuh"
#include "tile/block_epilogue.cuh"
#include "tile/cluster_sum.cuh"
#include "tile/epilogue.cuh"
#include "tile/pipeline.cuh"
#include "tile/scheduler.cuh"
#include "tile/wgmma_operand.cuh"

namespace kiln {

// What one launch computes; the order is that of the manifest.
struct Sm90GemmArgs {
  int64_t ldd;
  int64_t stride_d;
  int64_t ldc;
  int64_t stride_c;
  int32_t m, n;
  tile::TileGrid grid;
  int32_t a_batched, b_batched;  // 0: every product of the batch takes the same matrix
  int32_t prefetch;              // blocks of K that go to L2 while the grid before still runs
  float alpha, beta;
};

// Matrix `batch` of D, for its epilogue.
template <class C>
__device__ __forceinline__ tile::EpilogueTarget<C> sm90_gemm_target(const Sm90GemmArgs& args, typename C::d_t* d,
                                                                    const typename C::c_t* c,
                                                                    const typename C::c_t* bias, int64_t batch) {
  typename C::d_t* const to = d + batch * args.stride_d;
  if constexpr (tile::EpilogueOf<C>::kReadsC) {
    return {to, c + batch * args.stride_c, bias, args.ldd, args.ldc, args.alpha, args.beta};
  } else {
    return {to, to, bias, args.ldd, args.ldd, args.alpha, args.beta};
  }
}

template <class C>
struct Sm90GemmConfig {
  using Input = typename C::a_t;
  using Output = typename C::d_t;
  static constexpr int kBM = C::BM;
  static constexpr int kBN = C::BN;
  static constexpr int kBK = C::BK;
  static constexpr int kStages = C::STAGES;
  static constexpr int kWarpgroups = C::WARPGROUPS;
  static constexpr int kClusterM = C::CLUSTER_M;
  static constexpr int kClusterN = C::CLUSTER_N;
  static constexpr int kClusterK = C::CLUSTER_K;
  static constexpr int kBuffers = C::EPILOGUE;  // 0: D is stored from registers
  static constexpr bool kSwap = C::SWAP_AB != 0;
  static constexpr bool kPingpong = C::PINGPONG != 0;
  static constexpr bool kAKContiguous = C::a_layout_is_row;
  static constexpr bool kBKContiguous = !C::b_layout_is_row;

  // What wgmma sees: rows from its first operand, columns from its second.
  static constexpr int kRows = kSwap ? kBN : kBM;
  static constexpr int kColumns = kSwap ? kBM : kBN;
  static constexpr int kTileWarpgroups = kPingpong ? 1 : kWarpgroups;  // that share a tile
  static constexpr int kBlocks = kRows / (tile::kBlockRows * kTileWarpgroups);
  static constexpr int kOutColumns = kColumns / tile::EpilogueOf<C>::kStep;  // of D
  static constexpr bool kRowsKContiguous = kSwap ? kBKContiguous : kAKContiguous;
  static constexpr bool kColumnsKContiguous = kSwap ? kAKContiguous : kBKContiguous;

  static constexpr int kThreads = (1 + kWarpgroups) * tile::kWarpgroupThreads;
  static constexpr int kMulticastSize = kClusterM * kClusterN;  // blocks that share loads
  static constexpr int kClusterSize = kMulticastSize * kClusterK;
  static constexpr int kReleases = kTileWarpgroups * 4 * kMulticastSize;  // by each consumer warp of each block

  // Two consumer warpgroups start with 168 registers a thread and three with 128, too few for large tiles; one has 255
  // from the start. What the consumers take is what the producer gives: 40 + 2 · 232 = 3 · 168, 32 + 3 · 160 = 4 · 128.
  static constexpr bool kMovesRegisters = kWarpgroups > 1;
  static constexpr int kProducerRegisters = kWarpgroups == 2 ? 40 : 32;
  static constexpr int kConsumerRegisters = kWarpgroups == 2 ? 232 : 160;
  // Whether a consumer has registers to spare beside its accumulators.
  static constexpr bool kSpacious = kBlocks * kColumns / 2 <= (kWarpgroups == 3 ? 64 : 128);

  static_assert(is_same<Input, typename C::b_t>, "A and B have one type");
  static_assert(kWarpgroups >= 1 && kWarpgroups <= 3, "the register budget is laid out for up to three consumers");
  static_assert(!kPingpong || kWarpgroups == 2, "two consumers take turns");
  static_assert(kRows % (tile::kBlockRows * kTileWarpgroups) == 0, "each consumer takes whole wgmma blocks");
  static_assert(kClusterK == 1 || (kMulticastSize == 1 && kBuffers == 0 && !kPingpong),
                "blocks that share a tile's K take one tile each and store it from registers");
  static_assert(sizeof(Input) == 2 || (kAKContiguous && kBKContiguous), "wgmma takes tf32 with K contiguous only");
  static_assert(kBK % tile::kSlabK<Input> == 0, "a swizzled row has 128 bytes");
  static_assert(kBM / kClusterN % (kAKContiguous ? 8 : 64) == 0,
                "a multicast share of A must be whole swizzle patterns");
  static_assert(kBN / kClusterM % (kBKContiguous ? 8 : 64) == 0,
                "a multicast share of B must be whole swizzle patterns");
};

// Dynamic shared memory, in bytes from its start. Blocks of a cluster must agree on it, since copies are multicast.
template <class C>
struct Sm90GemmStorage {
  using Config = Sm90GemmConfig<C>;
  using Chunk = tile::StoreChunk<typename Config::Output, Config::kOutColumns, Config::kSwap>;
  using Sum =
      tile::ClusterSumStorage<Config::kClusterK, Config::kWarpgroups * 4, Config::kBlocks * Config::kColumns / 2>;
  static constexpr int kStageA = Config::kBM * Config::kBK * static_cast<int>(sizeof(typename Config::Input));
  static constexpr int kStageB = Config::kBN * Config::kBK * static_cast<int>(sizeof(typename Config::Input));
  static constexpr int kSteps = Config::kBK / tile::kSlabK<typename Config::Input> * tile::kSlabSteps;
  static constexpr int kRing = Config::kBuffers * Chunk::kBytes;  // of one consumer warpgroup
  static constexpr int kA = 0;
  static constexpr int kB = kA + Config::kStages * kStageA;
  static constexpr int kD = kB + Config::kStages * kStageB;
  static constexpr int kSum = kD + Config::kWarpgroups * kRing;  // what the cluster's other blocks send
  static constexpr int kBarriers = kSum + Sum::kBytes;
  static constexpr int kSumBarrier = kBarriers + tile::PipelineBarriers<Config::kStages>::kBytes;
  static constexpr int kBytes = kSumBarrier + (Config::kClusterK > 1 ? 16 : 0);
  static_assert(kStageA % 1024 == 0 && kStageB % 1024 == 0 && kRing % 1024 == 0,
                "swizzle patterns start at 1024 bytes");
  static_assert(kBytes == C::smem_bytes, "the manifest and the kernel must agree on shared memory");
};

// Calls visit(bytes into the stage, x, y) for each TMA box of this block's share of an operand's tile, Extent × BK from
// `extent` on.
template <class T, int Extent, int BK, int Shares, bool KContiguous, class Visit>
__device__ __forceinline__ void sm90_gemm_for_each_box(int32_t extent, int32_t k, uint32_t share, Visit visit) {
  constexpr int kShare = Extent / Shares;
  constexpr int kBoxExtent = KContiguous ? kShare : 64;
#pragma unroll
  for (int slab = 0; slab < BK / tile::kSlabK<T>; ++slab) {
    const int32_t slab_k = k + slab * tile::kSlabK<T>;
#pragma unroll
    for (int box = 0; box < kShare / kBoxExtent; ++box) {
      const int32_t row = share * kShare + box * kBoxExtent;
      const uint32_t offset = (slab * Extent + row) * tile::kSlabRowBytes;
      if constexpr (KContiguous) {
        visit(offset, slab_k, extent + row);
      } else {
        visit(offset, extent + row, slab_k);
      }
    }
  }
}

// Loads this block's share of an operand's tile for all `ctas` that share the tile.
template <class T, int Extent, int BK, int Shares, bool KContiguous>
__device__ __forceinline__ void sm90_gemm_load(uint32_t stage, const TensorMap& map, uint32_t barrier, int32_t extent,
                                               int32_t k, int32_t batch, uint32_t share, uint16_t ctas,
                                               uint64_t policy) {
  sm90_gemm_for_each_box<T, Extent, BK, Shares, KContiguous>(
      extent, k, share, [&](uint32_t offset, int32_t x, int32_t y) {
        if constexpr (Shares > 1) {
          ptx::tma_load_multicast(stage + offset, map, barrier, x, y, batch, ctas, policy);
        } else {
          ptx::tma_load(stage + offset, map, barrier, x, y, batch, policy);
        }
      });
}

// The index-th work of the grid, as far as it is this block's.
template <class C>
__device__ __forceinline__ tile::TileWork sm90_gemm_work(const tile::TileGrid& grid, uint32_t index, uint32_t rank) {
  const tile::TileWork work = tile::work_at(grid, index);
  return C::CLUSTER_K == 1 ? work : tile::part_of(work, rank, C::CLUSTER_K);
}

// No copy may reach a block, and no release its barriers, before they are initialised: each thread of the cluster comes
// by here before it does either. What it can find out first, it does first.
template <class C>
__device__ __forceinline__ void sm90_gemm_await_barriers() {
  using Config = Sm90GemmConfig<C>;
  if constexpr (Config::kClusterSize > 1) {
    ptx::cluster_wait();
  } else {
    ptx::named_barrier_sync(0, Config::kThreads);
  }
}

// One thread fills the ring for all tiles of this block.
template <class C>
__device__ __forceinline__ void sm90_gemm_produce(const TensorMap& map_a, const TensorMap& map_b,
                                                  const Sm90GemmArgs& args, uint32_t shared, uint32_t rank) {
  using Config = Sm90GemmConfig<C>;
  using Storage = Sm90GemmStorage<C>;
  const tile::PipelineBarriers<Config::kStages> barriers{shared + Storage::kBarriers};
  tile::PipelineState<Config::kStages> state;

  const uint32_t rank_m = rank % Config::kClusterM;
  const uint32_t rank_n = rank / Config::kClusterM % Config::kClusterN;
  uint16_t ctas_a = 0;  // the blocks of this block's row of tiles
#pragma unroll
  for (int i = 0; i < Config::kClusterN; ++i) ctas_a |= 1 << (rank_m + i * Config::kClusterM);
  const uint16_t ctas_b = ((1 << Config::kClusterM) - 1) << (rank_n * Config::kClusterM);

  // An operand that only one row or column of tiles reads is streamed; the other, read by all, had better stay in L2.
  const bool stream_a = args.grid.tiles_n == 1;
  const bool stream_b = args.grid.tiles_m == 1;
  const uint64_t policy_a = stream_a   ? ptx::policy_evict_first()
                            : stream_b ? ptx::policy_evict_last()
                                       : ptx::policy_evict_normal();
  const uint64_t policy_b = stream_b   ? ptx::policy_evict_first()
                            : stream_a ? ptx::policy_evict_last()
                                       : ptx::policy_evict_normal();

  const uint32_t clusters = gridDim.x / Config::kClusterSize;
  const uint32_t works = tile::num_works(args.grid);
  uint32_t i = blockIdx.x / Config::kClusterSize;
  tile::TileWork work = sm90_gemm_work<C>(args.grid, i, rank);

  // The grid before may still be writing A or B, so nothing can be read yet; but L2 is where its writes will arrive,
  // and what memory holds of the first blocks of K can come that far meanwhile.
  if (i < works) {
    const int32_t m = (work.m * Config::kClusterM + rank_m) * Config::kBM;
    const int32_t n = (work.n * Config::kClusterN + rank_n) * Config::kBN;
    const int32_t end = min(work.k_end, work.k_begin + args.prefetch);
#pragma unroll 1
    for (int32_t k = work.k_begin; k < end; ++k) {
      sm90_gemm_for_each_box<typename Config::Input, Config::kBM, Config::kBK, Config::kClusterN,
                             Config::kAKContiguous>(m, k * Config::kBK, rank_n, [&](uint32_t, int32_t x, int32_t y) {
        ptx::tma_prefetch(map_a, x, y, work.batch * args.a_batched);
      });
      sm90_gemm_for_each_box<typename Config::Input, Config::kBN, Config::kBK, Config::kClusterM,
                             Config::kBKContiguous>(n, k * Config::kBK, rank_m, [&](uint32_t, int32_t x, int32_t y) {
        ptx::tma_prefetch(map_b, x, y, work.batch * args.b_batched);
      });
    }
  }
  sm90_gemm_await_barriers<C>();
  ptx::griddepcontrol_wait();

  while (i < works) {
    const int32_t m = (work.m * Config::kClusterM + rank_m) * Config::kBM;
    const int32_t n = (work.n * Config::kClusterN + rank_n) * Config::kBN;
    for (int32_t k = work.k_begin; k < work.k_end; ++k) {
      barriers.wait_empty(state);
      const uint32_t full = barriers.full(state.stage);
      ptx::mbarrier_arrive_expect_tx(full, Storage::kStageA + Storage::kStageB);
      sm90_gemm_load<typename Config::Input, Config::kBM, Config::kBK, Config::kClusterN, Config::kAKContiguous>(
          shared + Storage::kA + state.stage * Storage::kStageA, map_a, full, m, k * Config::kBK,
          work.batch * args.a_batched, rank_n, ctas_a, policy_a);
      sm90_gemm_load<typename Config::Input, Config::kBN, Config::kBK, Config::kClusterM, Config::kBKContiguous>(
          shared + Storage::kB + state.stage * Storage::kStageB, map_b, full, n, k * Config::kBK,
          work.batch * args.b_batched, rank_m, ctas_b, policy_b);
      state.advance();
    }
    i += clusters;
    work = sm90_gemm_work<C>(args.grid, i, rank);
  }
  // A block that ends early would take its barriers from peers that still release to them.
  if constexpr (Config::kMulticastSize > 1) {
    for (int stage = 0; stage < Config::kStages; ++stage, state.advance()) barriers.wait_empty(state);
  }
}

// One warpgroup multiplies and stores its blocks of all tiles of this block.
template <class C>
__device__ __forceinline__ void sm90_gemm_consume(const TensorMap& map_d, typename C::d_t* d, const typename C::c_t* c,
                                                  const typename C::c_t* bias, float* partials,
                                                  const Sm90GemmArgs& args, uint32_t shared, uint32_t rank,
                                                  uint32_t warpgroup) {
  using Config = Sm90GemmConfig<C>;
  using Storage = Sm90GemmStorage<C>;
  using Output = typename Config::Output;
  constexpr int kBlocks = Config::kBlocks;
  constexpr int kColumns = Config::kColumns;
  constexpr int kOutColumns = Config::kOutColumns;
  const tile::PipelineBarriers<Config::kStages> barriers{shared + Storage::kBarriers};
  tile::PipelineState<Config::kStages> state;
  // Barrier 0 is the block's; each warpgroup has one for its epilogue and one at which it awaits its turn.
  constexpr uint32_t kEpilogueBarrier = 1;
  constexpr uint32_t kTurnBarrier = 4;
  constexpr uint32_t kTurnThreads = 2 * tile::kWarpgroupThreads;

  const auto release = [&](uint32_t stage) {
    const uint32_t lane = threadIdx.x % 32;
    if constexpr (Config::kMulticastSize > 1) {
      if (lane < Config::kMulticastSize) ptx::mbarrier_arrive_remote(barriers.empty(stage), lane);
    } else {
      if (lane == 0) ptx::mbarrier_arrive(barriers.empty(stage));
    }
  };

  const uint32_t first_row = Config::kPingpong ? 0 : warpgroup * kBlocks * tile::kBlockRows;  // in the tile
  constexpr int kStageRows = Config::kSwap ? Storage::kStageB : Storage::kStageA;
  constexpr int kStageColumns = Config::kSwap ? Storage::kStageA : Storage::kStageB;
  const uint64_t rows_descriptor = tile::operand_descriptor<Config::kRowsKContiguous>(
      shared + (Config::kSwap ? Storage::kB : Storage::kA) + first_row * tile::kSlabRowBytes);
  const uint64_t columns_descriptor =
      tile::operand_descriptor<Config::kColumnsKContiguous>(shared + (Config::kSwap ? Storage::kA : Storage::kB));

  const uint32_t clusters = gridDim.x / Config::kClusterSize;
  const uint32_t works = tile::num_works(args.grid);
  constexpr uint32_t kTurns = Config::kPingpong ? 2 : 1;
  uint32_t i = blockIdx.x / Config::kClusterSize;
  if (Config::kPingpong && warpgroup == 1) {
    state.skip(tile::k_blocks_of(args.grid, i));
    i += clusters;
  }
  tile::TileWork next = sm90_gemm_work<C>(args.grid, i, rank);
  sm90_gemm_await_barriers<C>();
  ptx::griddepcontrol_wait();

  for (; i < works; i += clusters * kTurns) {
    const tile::TileWork work = next;
    // NOTE: a barrier tells its phases apart by parity alone, so a warpgroup must not await a stage before the other
    // has seen all that come before it.
    if (Config::kPingpong && i >= clusters) ptx::named_barrier_sync(kTurnBarrier + warpgroup, kTurnThreads);
    float accumulators[kBlocks][kColumns / 2];

    uint32_t in_flight = 0;  // the stage that the products under way read
    for (int32_t k = work.k_begin; k < work.k_end; ++k) {
      barriers.wait_full(state);
      const uint64_t rows = rows_descriptor + tile::descriptor_offset(state.stage * kStageRows);
      const uint64_t columns = columns_descriptor + tile::descriptor_offset(state.stage * kStageColumns);
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < Storage::kSteps; ++step) {
        const int slab = step / tile::kSlabSteps;
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          const uint64_t block_rows =
              rows + tile::descriptor_offset((slab * Config::kRows + b * tile::kBlockRows) * tile::kSlabRowBytes) +
              tile::descriptor_k_step<Config::kRowsKContiguous>(step % tile::kSlabSteps);
          const uint64_t block_columns = columns + tile::descriptor_offset(slab * kColumns * tile::kSlabRowBytes) +
                                         tile::descriptor_k_step<Config::kColumnsKContiguous>(step % tile::kSlabSteps);
          // A tile's first product overwrites what the last tile left. Peeling that step instead costs compile time.
          ptx::wgmma<kColumns, typename Config::Input, !Config::kRowsKContiguous, !Config::kColumnsKContiguous>(
              accumulators[b], block_rows, block_columns, step > 0 || k > work.k_begin);
        }
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();
      if (k > work.k_begin) release(in_flight);
      in_flight = state.stage;
      state.advance();
    }
    if constexpr (Config::kPingpong) {
      if (i + clusters < works) ptx::named_barrier_arrive(kTurnBarrier + (warpgroup ^ 1), kTurnThreads);
      state.skip(tile::k_blocks_of(args.grid, i + clusters));
    }
    // Found out while the last products are under way.
    next = sm90_gemm_work<C>(args.grid, i + clusters * kTurns, rank);
    ptx::wgmma_wait_group<0>();
    release(in_flight);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) ptx::fence_registers(accumulators[b]);

    const uint32_t rank_m = rank % Config::kClusterM;
    const uint32_t rank_n = rank / Config::kClusterM % Config::kClusterN;
    const int32_t m = (work.m * Config::kClusterM + rank_m) * Config::kBM + (Config::kSwap ? 0 : first_row);
    const int32_t n = (work.n * Config::kClusterN + rank_n) * Config::kBN + (Config::kSwap ? first_row : 0);
    const tile::BlockTarget<C> out{sm90_gemm_target<C>(args, d, c, bias, work.batch), args.m, args.n};

    if constexpr (Config::kBuffers > 0) {
      tile::ProductChunks<C, kColumns, Config::kSwap, kBlocks, Config::kSpacious> chunks(accumulators, out, m, n);
      tile::store_blocks<Config::kBuffers, kOutColumns, Config::kSwap, Output, kBlocks>(
          chunks, map_d, shared + Storage::kD + warpgroup * Storage::kRing, kEpilogueBarrier + warpgroup, m,
          n / tile::EpilogueOf<C>::kStep, work.batch);
    } else {
      if constexpr (Config::kClusterK > 1) {
        constexpr int kCount = kBlocks * kColumns / 2;
        float(&flat)[kCount] = reinterpret_cast<float(&)[kCount]>(accumulators);
        if (!tile::cluster_sum<Config::kClusterK, Config::kWarpgroups * 4>(
                flat, shared + Storage::kSum, shared + Storage::kSumBarrier, rank, threadIdx.x / 32 - 4)) {
          return;
        }
      }
      if (args.grid.split > 1) {
        const int64_t ld = (args.n + 3) / 4 * 4;
        const int64_t slice = static_cast<int64_t>(work.split) * args.grid.batch + work.batch;
        const tile::Output<float> sums{partials + slice * args.m * ld, ld, args.m, args.n};
        tile::store_blocks_directly<kColumns, Config::kSwap>(accumulators, sums, m, n);
      } else {
        tile::finish_and_store<C, kColumns, Config::kSwap>(accumulators, out, m, n);
      }
    }
  }
  // Shared memory must outlive the stores that read it.
  if constexpr (Config::kBuffers > 0) ptx::bulk_wait_group_read<0>();
}

template <class C>
__global__ void __launch_bounds__(Sm90GemmConfig<C>::kThreads, 1)
    sm90_gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
              const __grid_constant__ TensorMap map_d, typename C::d_t* d, const typename C::c_t* c,
              const typename C::c_t* bias, float* partials, const __grid_constant__ Sm90GemmArgs args) {
  using Config = Sm90GemmConfig<C>;
  using Storage = Sm90GemmStorage<C>;
  extern __shared__ __align__(1024) uint8_t dynamic_shared[];
  const uint32_t shared = ptx::shared_address(dynamic_shared);
  const uint32_t rank = Config::kClusterSize > 1 ? ptx::cluster_cta_rank() : 0;
  // The same in every lane, and the shuffle tells the compiler so.
  const uint32_t warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);

  if (warp == 0 && ptx::elect_one()) {
    ptx::prefetch_tensor_map(map_a);
    ptx::prefetch_tensor_map(map_b);
    if constexpr (Config::kBuffers > 0) ptx::prefetch_tensor_map(map_d);
    if constexpr (Config::kClusterK > 1) ptx::mbarrier_init(shared + Storage::kSumBarrier, Storage::Sum::kArrivals);
    tile::PipelineBarriers<Config::kStages>{shared + Storage::kBarriers}.initialize(Config::kReleases);
  }
  if constexpr (Config::kClusterSize > 1) ptx::cluster_arrive_relaxed();
  // All blocks of a persistent grid are resident, so the next grid can take no place from them. It waits for the end of
  // this one before it reads or writes memory, as producer and consumers do here once they know what to load and store.
  ptx::griddepcontrol_launch_dependents();

  if (warp < 4) {
    if constexpr (Config::kMovesRegisters) ptx::setmaxnreg_dec<Config::kProducerRegisters>();
    if (warp == 0 && ptx::elect_one()) {
      sm90_gemm_produce<C>(map_a, map_b, args, shared, rank);
    } else {
      sm90_gemm_await_barriers<C>();
    }
  } else {
    if constexpr (Config::kMovesRegisters) ptx::setmaxnreg_inc<Config::kConsumerRegisters>();
    sm90_gemm_consume<C>(map_d, d, c, bias, partials, args, shared, rank, warp / 4 - 1);
  }
}

// The epilogue over the sum of the partial products, for four neighbours of a row a thread.
template <class C>
__global__ void __launch_bounds__(256)
    sm90_gemm_reduce(typename C::d_t* d, const typename C::c_t* c, const typename C::c_t* bias, const float* partials,
                     const __grid_constant__ Sm90GemmArgs args) {
  // Tiles that leave by TMA are never split; the kernel is instantiated all the same and need not cost compile time.
  if constexpr (C::EPILOGUE == 0) {
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    const int64_t fours = (args.n + 3) / 4;  // a row of partial sums is padded to whole fours
    const int64_t in_slice = static_cast<int64_t>(args.grid.batch) * args.m * fours;
    const int64_t index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
    if (index >= in_slice) return;

    const float4* from = reinterpret_cast<const float4*>(partials) + index;
    float sums[4] = {};
#pragma unroll 4
    for (int32_t split = 0; split < args.grid.split; ++split) {
      const float4 part = __ldcs(from + split * in_slice);
      sums[0] += part.x;
      sums[1] += part.y;
      sums[2] += part.z;
      sums[3] += part.w;
    }

    const int64_t row = index / fours;
    const int32_t n = static_cast<int32_t>(index - row * fours) * 4;
    const tile::EpilogueTarget<C> target = sm90_gemm_target<C>(args, d, c, bias, row / args.m).at(row % args.m, n);
    constexpr int kStep = tile::EpilogueOf<C>::kStep;
#pragma unroll
    for (int i = 0; i < 4; i += kStep) {
      if (n + i >= args.n) break;
      float made[kStep];
#pragma unroll
      for (int j = 0; j < kStep; ++j) made[j] = sums[i + j];
      target.store(0, i, made);
    }
  }
}

}  // namespace kiln
