// D[M,N] = alpha · A[M,K] · B[K,N] + beta · D, or any epilogue of the op, on the tensor cores by mma.sync, for every
// GPU from sm_80 on.
//
//   global ── cp.async ──▶ shared, STAGES tiles of A and B ── ldmatrix ──▶ registers ── mma.sync ──▶ accumulators
//                                                                                                        │
//   global ◀── rows of D, or of a fp32 partial sum when K is split ── a warp's slice of shared memory ◀───┘
//
// grid = (tiles of D, parts of K, batch). A block computes BM × BN of D over one part of K; its WARPS_M × WARPS_N warps
// compute WM × WN each. All warps copy, read and multiply: while one tile is multiplied, STAGES - 1 are on their way.
// With K in more than one part, sm80_gemm_reduce adds the parts up, always in the same order.
#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/mma.cuh"
#include "ptx/types.cuh"
#include "tile/epilogue_sm80.cuh"
#include "tile/gemm_epilogue.cuh"
#include "tile/operand_sm80.cuh"

namespace kiln {

struct Sm80GemmArgs {
  int64_t lda, ldb, ldd, ldc, stride_a, stride_b, stride_d, stride_c;
  int32_t M, N, K;
  int32_t splits, k_per_split;  // k_per_split is a multiple of BK
  int32_t group_m;              // tiles of D that follow each other down a column before the next column starts
  int32_t vector_d;             // every row of D, and of C, is aligned to 4 elements
  float alpha, beta;            // beta == 0: neither D nor C is read
};

struct Sm80ReduceArgs {
  int64_t ldd, ldc, stride_d, stride_c;
  int32_t M, N;
  int32_t splits;
  int32_t vector_d;
  float alpha, beta;
};

template <class C>
struct Sm80GemmConfig {
  static constexpr int BM = C::BM, BN = C::BN, BK = C::BK;
  static constexpr int kWarpsM = C::WARPS_M, kWarpsN = C::WARPS_N;
  static constexpr int WM = BM / kWarpsM, WN = BN / kWarpsN;
  static constexpr int kThreads = kWarpsM * kWarpsN * 32;
  static constexpr int kStages = C::STAGES;

  using Element = typename C::a_t;
  using A = tile::Operand<typename C::a_t, tile::Side::kA, C::a_layout_is_row != 0, BM, BK, kThreads, C::COPY_A>;
  using B = tile::Operand<typename C::b_t, tile::Side::kB, C::b_layout_is_row == 0, BN, BK, kThreads, C::COPY_B>;
  using ReaderA = typename A::template Reader<WM>;
  using ReaderB = typename B::template Reader<WN>;
  using Epilogue = tile::WarpEpilogue<WM, WN>;

  static_assert(is_same<typename C::a_t, typename C::b_t>, "mma.sync takes operands of one type");
  static_assert(WM * kWarpsM == BM && WN * kWarpsN == BN, "the warps must cover the tile exactly");
  static_assert(WM % 16 == 0 && WN % 16 == 0, "fragments are read 16 rows at a time");
  static_assert(kStages >= 2, "one tile is multiplied while another arrives");
  static_assert(A::kSteps >= 2 && A::kSteps % 2 == 0, "fragments alternate between two sets of registers");

  // Shared memory: kStages × (tile of A, tile of B); the epilogue's staging takes their place at the end.
  // Tile sizes are multiples of their row length, so every tile is aligned to its rows, as Operand::Reader requires.
  static constexpr int kStageBytes = A::kTileBytes + B::kTileBytes;
  static constexpr int kPipelineBytes = kStages * kStageBytes;
  static constexpr int kEpilogueBytes = kWarpsM * kWarpsN * Epilogue::kStagingBytes;
  static_assert(C::smem_bytes >= kPipelineBytes && C::smem_bytes >= kEpilogueBytes,
                "the manifest asks for too little shared memory");
  static_assert(A::kTileBytes % B::kRowBytes == 0 && kStageBytes % A::kRowBytes == 0 && kStageBytes % B::kRowBytes == 0,
                "tiles must start at a multiple of their row length");
};

namespace sm80 {

struct TileIndex {
  int64_t m, n;
};

// Blocks that run at the same time should share rows of A and columns of B in L2: the tiles are visited in bands of
// `group_m` rows of tiles, down each column of the band in turn.
__device__ inline TileIndex tile_of_block(int tile, int tiles_m, int tiles_n, int group_m) {
  const int band_tiles = group_m * tiles_n;
  const int first_m = tile / band_tiles * group_m;
  const int band_m = min(group_m, tiles_m - first_m);
  const int in_band = tile % band_tiles;
  return {first_m + in_band % band_m, in_band / band_m};
}

// Multiplies this block's tiles along K. The copies of a tile start STAGES - 1 tiles ahead of its use, and fragments
// are read one step of an mma ahead, across the boundary of tiles too.
template <class Config>
__device__ __forceinline__ void multiply(typename Config::A::Copy copy_a, typename Config::B::Copy copy_b,
                                         int num_tiles, uint32_t shared,
                                         typename Config::Epilogue::Accumulators& accumulators) {
  using A = typename Config::A;
  using B = typename Config::B;
  constexpr int kSteps = A::kSteps;
  constexpr int kPiecesA = A::Copy::kPiecesPerThread;
  constexpr int kPiecesB = B::Copy::kPiecesPerThread;
  const uint32_t end = shared + Config::kPipelineBytes;
  const auto next_stage = [&](uint32_t stage) {
    stage += Config::kStageBytes;
    return stage == end ? shared : stage;
  };

  // Past the last tile the copies only write zeros: cheaper than a branch, and the count of groups stays in step.
#pragma unroll
  for (int stage = 0; stage < Config::kStages - 1; ++stage) {
    copy_a.start(shared + stage * Config::kStageBytes, 0, kPiecesA);
    copy_b.start(shared + stage * Config::kStageBytes + A::kTileBytes, 0, kPiecesB);
    ptx::cp_async_commit();
    A::advance(copy_a);
    B::advance(copy_b);
  }
  ptx::cp_async_wait<Config::kStages - 2>();
  __syncthreads();

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const typename Config::ReaderA reader_a(warp % Config::kWarpsM * Config::WM);
  const typename Config::ReaderB reader_b(warp / Config::kWarpsM * Config::WN);
  typename Config::ReaderA::Fragments a[2];
  typename Config::ReaderB::Fragments b[2];
  uint32_t read = shared;
  uint32_t write = shared + (Config::kStages - 1) * Config::kStageBytes;
  reader_a.load(a[0], read, 0);
  reader_b.load(b[0], read + A::kTileBytes, 0);

#pragma unroll 1
  for (int tile = 0; tile < num_tiles; ++tile) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int now = step % 2;
      const int next = 1 - now;
      if (step == kSteps - 1) {
        // The next tile has landed, for all threads; and none reads this one any more, so the copies that start after
        // this barrier may overwrite it.
        ptx::cp_async_wait<Config::kStages - 2>();
        __syncthreads();
        read = next_stage(read);
      }
      reader_a.load(a[next], read, (step + 1) % kSteps);
      reader_b.load(b[next], read + A::kTileBytes, (step + 1) % kSteps);

      if (step < kSteps - 1) {
        copy_a.start(write, kPiecesA * step / (kSteps - 1), kPiecesA * (step + 1) / (kSteps - 1));
        copy_b.start(write + A::kTileBytes, kPiecesB * step / (kSteps - 1), kPiecesB * (step + 1) / (kSteps - 1));
      }
      if (step == kSteps - 2) {
        ptx::cp_async_commit();
        A::advance(copy_a);
        B::advance(copy_b);
        write = next_stage(write);
      }

      Config::ReaderA::convert(a[now]);
      Config::ReaderB::convert(b[now]);
#pragma unroll
      for (int m = 0; m < Config::WM / 16; ++m) {
#pragma unroll
        for (int i = 0; i < Config::WN / 8; ++i) {
          // Back and forth, so that each mma shares an operand with the one before it.
          const int n = m % 2 == 0 ? i : Config::WN / 8 - 1 - i;
          const uint32_t b_fragment[2] = {b[now][n / 2][n % 2 * 2], b[now][n / 2][n % 2 * 2 + 1]};
          ptx::mma<typename Config::Element>(accumulators[m][n], a[now][m], b_fragment);
        }
      }
    }
  }
  ptx::cp_async_wait<0>();
  __syncthreads();
}

// Matrix `batch` of D, for its epilogue.
template <class C, class Args>
__device__ __forceinline__ tile::EpilogueTarget<C> target(const Args& args, typename C::d_t* d,
                                                          const typename C::c_t* c, const typename C::c_t* bias,
                                                          int64_t batch) {
  typename C::d_t* const to = d + batch * args.stride_d;
  if constexpr (tile::EpilogueOf<C>::kReadsC) {
    return {to, c + batch * args.stride_c, bias, args.ldd, args.ldc, args.alpha, args.beta};
  } else {
    return {to, to, bias, args.ldd, args.ldd, args.alpha, args.beta};
  }
}

// Stores a warp's tile in pieces of 4 where the rows of D allow it, else of as few as make an element.
template <class Epilogue, int kStep, class Target>
__device__ __forceinline__ void store(const Target& target, int rows, int cols,
                                      const typename Epilogue::Accumulators& accumulators, float* staging,
                                      bool aligned) {
  if (aligned) {
    Epilogue::template store<4, kStep>(target, rows, cols, accumulators, staging);
  } else {
    Epilogue::template store<kStep, kStep>(target, rows, cols, accumulators, staging);
  }
}

}  // namespace sm80

template <class C>
__global__ void __launch_bounds__(Sm80GemmConfig<C>::kThreads, 1)
    sm80_gemm(const typename C::a_t* a, const typename C::b_t* b, typename C::d_t* d, const typename C::c_t* c,
              const typename C::c_t* bias, float* partials, const Sm80GemmArgs args) {
  using Config = Sm80GemmConfig<C>;
  using A = typename Config::A;
  using B = typename Config::B;
  extern __shared__ __align__(1024) uint8_t shared[];

  const int64_t batch = blockIdx.z;
  const int split = static_cast<int>(blockIdx.y);
  const sm80::TileIndex tile = sm80::tile_of_block(static_cast<int>(blockIdx.x), ceil_div(args.M, Config::BM),
                                                   ceil_div(args.N, Config::BN), args.group_m);
  const int64_t k = static_cast<int64_t>(split) * args.k_per_split;
  const int k_end = static_cast<int>(min(k + args.k_per_split, static_cast<int64_t>(args.K)));
  const int num_tiles = ceil_div(k_end - static_cast<int>(k), Config::BK);

  typename Config::Epilogue::Accumulators accumulators = {};
  sm80::multiply<Config>(A::copy(a + batch * args.stride_a, args.lda, tile.m * Config::BM, k, args.M, k_end),
                         B::copy(b + batch * args.stride_b, args.ldb, tile.n * Config::BN, k, args.N, k_end), num_tiles,
                         static_cast<uint32_t>(__cvta_generic_to_shared(shared)), accumulators);

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t m = tile.m * Config::BM + warp % Config::kWarpsM * Config::WM;
  const int64_t n = tile.n * Config::BN + warp / Config::kWarpsM * Config::WN;
  const int rows = args.M - static_cast<int>(m);
  const int cols = args.N - static_cast<int>(n);
  float* staging = reinterpret_cast<float*>(shared + warp * Config::Epilogue::kStagingBytes);
  if (args.splits == 1) {
    sm80::store<typename Config::Epilogue, tile::EpilogueOf<C>::kStep>(
        sm80::target<C>(args, d, c, bias, batch).at(m, n), rows, cols, accumulators, staging, args.vector_d != 0);
  } else {
    float* partial = partials + ((batch * args.splits + split) * args.M + m) * args.N + n;
    sm80::store<typename Config::Epilogue, 1>(tile::PartialTarget{partial, args.N}, rows, cols, accumulators, staging,
                                              args.N % 4 == 0);
  }
}

// The epilogue over the sum of the partial products. partials is [batch, splits, M, N]; a thread takes 4 columns of a
// row, grid = (M · ceil(N / 4) / 256, batch).
template <class C>
__global__ void __launch_bounds__(256)
    sm80_gemm_reduce(const float* partials, typename C::d_t* d, const typename C::c_t* c, const typename C::c_t* bias,
                     const Sm80ReduceArgs args) {
  using Four = tile::Vector<float, 4>;
  const int64_t groups = ceil_div(args.N, 4);
  const int64_t group = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  const int64_t batch = blockIdx.y;
  const int64_t m = group / groups;
  const int n = static_cast<int>(group % groups) * 4;
  if (m >= args.M) return;

  const int64_t matrix = static_cast<int64_t>(args.M) * args.N;
  const float* partial = partials + batch * args.splits * matrix + m * args.N + n;
  const tile::EpilogueTarget<C> target = sm80::target<C>(args, d, c, bias, batch).at(m, n);
  const int cols = min(4, args.N - n);
  float sums[4] = {};
  for (int split = 0; split < args.splits; ++split, partial += matrix) {
    if (args.N % 4 == 0) {
      const Four part = *reinterpret_cast<const Four*>(partial);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] += part.at[i];
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < cols) sums[i] += partial[i];
      }
    }
  }
  if (args.vector_d != 0 && cols == 4) {
    target.store(0, 0, sums);
    return;
  }
  constexpr int kStep = tile::EpilogueOf<C>::kStep;
#pragma unroll
  for (int i = 0; i < 4; i += kStep) {
    float made[kStep];
#pragma unroll
    for (int j = 0; j < kStep; ++j) made[j] = sums[i + j];
    if (i < cols) target.store(0, i, made);
  }
}

}  // namespace kiln
