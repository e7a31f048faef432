// D[M,N] = alpha · A[M,K] · B[K,N] + beta · D, or any epilogue of the op, with fp32 multiply-adds on the ordinary
// cores: the template that takes every problem. Any dtypes, layouts, leading dimensions, strides and sizes, any pointer
// aligned to its element.
//
//   device memory ── VEC elements a load ──> registers ── as fp32 ──> shared memory, 2 stages ──> fragments ──> sums
//
// A block owns a BM × BN tile of D. Both operands stand in shared memory as [BK][BM] and [BK][BN], so that a fragment
// is read in pieces of 4 floats whatever the layout in device memory. A warp owns LM·TM × LN·TN of the tile, its lanes
// form LM × LN, and a lane owns TM × TN values: pieces of 4 rows and 4 columns that lie LM·4 rows and LN·4 columns
// apart, which makes the pieces of neighbouring lanes neighbours in shared memory and in D. With `splits` > 1 each
// block sums a range of k into fp32 partials, and simt_gemm_reduce adds them up in order.
#pragma once

#include "tile/gemm_problem.cuh"

namespace kiln {
namespace simt {

__host__ __device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

using tile::Vector;

template <class C>
struct Config {
  static constexpr int kM = C::BM;
  static constexpr int kN = C::BN;
  static constexpr int kK = C::BK;
  static constexpr int kThreadM = C::TM;
  static constexpr int kThreadN = C::TN;
  static constexpr int kVec = C::VEC;
  static constexpr int kLanesM = C::lanes_m;
  static constexpr int kLanesN = 32 / kLanesM;
  static constexpr int kWarpM = kLanesM * kThreadM;
  static constexpr int kWarpN = kLanesN * kThreadN;
  static constexpr int kWarpsM = kM / kWarpM;
  static constexpr int kWarps = kWarpsM * (kN / kWarpN);
  static constexpr int kThreads = kWarps * 32;
  // The widest piece of a fragment that one shared-memory access moves.
  static constexpr int kPieceM = smaller(4, kThreadM);
  static constexpr int kPieceN = smaller(4, kThreadN);

  static_assert(kM % kWarpM == 0 && kN % kWarpN == 0, "whole warps must cover the tile");
  static_assert(kThreads == C::threads, "the manifest launches as many threads as the tile needs");
  static_assert(kThreadM % kPieceM == 0 && kThreadN % kPieceN == 0, "a thread's values come in whole pieces");
};

// One operand's way from device memory to its [BK][MN] shared tile, for one thread. MN is M for A and N for B; kAlongK
// says that k is the contiguous dimension in device memory.
//
// A warp's load covers a slab of the tile, kLanesK lanes along k by kLanesMn along MN, whole lines first. Where k is
// contiguous the tile is transposed on its way in: a lane's values go to consecutive rows of shared memory, and the
// lanes of one such store to kLanesK rows. The columns of those rows are exchanged by swizzle(), so that the 32 lanes
// hit 32 different banks.
template <class T, int kMn, int kDepth, int kVec, int kWarps, bool kAlongK>
struct OperandTile {
  static constexpr int kLanesMn = kAlongK ? smaller(32 / smaller(8, kDepth / kVec), kMn) : smaller(32, kMn / kVec);
  static constexpr int kLanesK = 32 / kLanesMn;
  static constexpr int kSlabMn = kLanesMn * (kAlongK ? 1 : kVec);
  static constexpr int kSlabK = kLanesK * (kAlongK ? kVec : 1);
  static constexpr int kSlabsMn = kMn / kSlabMn;
  static constexpr int kSlabs = kSlabsMn * (kDepth / kSlabK);
  static constexpr int kLoads = ceil_div(kSlabs, kWarps);
  static constexpr int kFloats = kDepth * kMn;

  static_assert(kMn % kSlabMn == 0 && kDepth % kSlabK == 0, "whole slabs must cover the tile");
  static_assert(kSlabsMn % kWarps == 0 || kWarps % kSlabsMn == 0, "a thread's loads must be a fixed step apart");
  static_assert(kSlabs % kWarps == 0 || kSlabs < kWarps, "all warps load equally often, or some not at all");

  using Load = Vector<T, kVec>;

  // This thread's first element in the tile.
  int mn;
  int k;
  bool takes_part;
  int mn_left;      // rows of the operand from the tile's first one on, at most kMn
  int64_t leading;  // elements between lines
  const T* next;    // address of element (mn, k) of the next tile along k
  Load staged[kLoads];

  // The step from a thread's first load to load i.
  static constexpr __device__ int step_mn(int i) { return i * kWarps % kSlabsMn * kSlabMn; }
  static constexpr __device__ int step_k(int i) { return i * kWarps / kSlabsMn * kSlabK; }

  // Element (k, mn) stands in column mn ^ swizzle(k) of row k. A multiple of 4, which keeps the pieces whole.
  static constexpr __device__ int swizzle(int depth) {
    return kAlongK ? (depth / kVec % kLanesK * kLanesMn) & (kMn - 1) : 0;
  }

  // `origin`: address of element (first row of the tile, first k). `rows_left` counts the operand's rows from there.
  __device__ __forceinline__ OperandTile(const T* origin, int64_t leading_dim, int64_t rows_left)
      : leading(leading_dim) {
    const int lane = threadIdx.x % 32;
    const int slab = threadIdx.x / 32;
    mn = slab % kSlabsMn * kSlabMn + (kAlongK ? lane / kLanesK : lane % kLanesMn * kVec);
    k = slab / kSlabsMn * kSlabK + (kAlongK ? lane % kLanesK * kVec : lane / kLanesMn);
    takes_part = kSlabs >= kWarps || slab < kSlabs;
    mn_left = rows_left < kMn ? static_cast<int>(rows_left) : kMn;
    next = origin + offset(mn, k);
  }

  __device__ __forceinline__ int64_t offset(int row, int depth) const {
    return kAlongK ? row * leading + depth : depth * leading + row;
  }

  // Starts the loads of the next tile along k, of which `k_left` values of k exist, perhaps none. What is outside
  // becomes zero.
  __device__ __forceinline__ void load(int64_t k_left) {
    if (mn_left == kMn && k_left >= kDepth) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (takes_part) staged[i] = load_one(i);
      }
    } else {
      // VEC divides the length of a line, and so a vector is all inside or all outside.
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const bool inside = takes_part && mn + step_mn(i) < mn_left && k + step_k(i) < k_left;
        staged[i] = inside ? load_one(i) : Load{};
      }
    }
    next += kAlongK ? kDepth : kDepth * leading;
  }

  __device__ __forceinline__ Load load_one(int i) const {
    return *reinterpret_cast<const Load*>(next + offset(step_mn(i), step_k(i)));
  }

  __device__ __forceinline__ void store(float* tile) const {
    if (!takes_part) return;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      // step_k is a multiple of the swizzle's period, and multiples of 32 lie above its bits: loads share an address.
      const int low = step_mn(i) % 32;
      float* const to = tile + (k + step_k(i)) * kMn + ((mn + low) ^ swizzle(k)) + step_mn(i) - low;
      if constexpr (kAlongK) {
#pragma unroll
        for (int v = 0; v < kVec; ++v) to[v * kMn] = to_float(staged[i].at[v]);
      } else {
        Vector<float, kVec> values;
#pragma unroll
        for (int v = 0; v < kVec; ++v) values.at[v] = to_float(staged[i].at[v]);
        *reinterpret_cast<Vector<float, kVec>*>(to) = values;
      }
    }
  }

  // Reads a lane's fragment of row `depth`: pieces of kPiece, the first at column `first`, kLanes pieces apart.
  // The swizzle's bits that lie among the pieces reorder them; the others move the first.
  template <int kPiece, int kLanes, int kCount>
  static __device__ __forceinline__ void read(float (&fragment)[kCount], const float* tile, int first, int depth) {
    constexpr int kPieceBits = kLanes * kCount - kLanes * kPiece;
    const int between = swizzle(depth) & kPieceBits;
    const float* const row = tile + depth * kMn + (first ^ (swizzle(depth) - between));
#pragma unroll
    for (int i = 0; i < kCount / kPiece; ++i) {
      const auto piece = *reinterpret_cast<const Vector<float, kPiece>*>(row + ((i * kLanes * kPiece) ^ between));
#pragma unroll
      for (int v = 0; v < kPiece; ++v) fragment[i * kPiece + v] = piece.at[v];
    }
  }
};

// Where a lane's values are in the block's tile.
template <class Cfg>
struct LaneTile {
  int m, n;

  // Two rows of lanes interleave, so that the 8 lanes that a 16-byte shared access serves together touch 2 pieces of A
  // and 4 of B instead of 1 and 8.
  __device__ __forceinline__ LaneTile() {
    constexpr int kInterleave = smaller(2, Cfg::kLanesM);
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int lane_m = lane % kInterleave + lane / (kInterleave * Cfg::kLanesN) * kInterleave;
    const int lane_n = lane / kInterleave % Cfg::kLanesN;
    m = warp % Cfg::kWarpsM * Cfg::kWarpM + lane_m * Cfg::kPieceM;
    n = warp / Cfg::kWarpsM * Cfg::kWarpN + lane_n * Cfg::kPieceN;
  }
};

// Passes a lane's values on in pieces of kVec neighbours; rows and columns count what exists of D from the tile on.
// kVec divides the columns, and so a piece is all inside or all outside.
template <class Cfg, int kVec, class Target>
__device__ __forceinline__ void store_tile(const float (&acc)[Cfg::kThreadM][Cfg::kThreadN], LaneTile<Cfg> at,
                                           const Target& target, int64_t rows, int64_t columns) {
#pragma unroll
  for (int i = 0; i < Cfg::kThreadM; ++i) {
    const int m = at.m + i / Cfg::kPieceM * Cfg::kLanesM * Cfg::kPieceM + i % Cfg::kPieceM;
    if (m >= rows) return;
#pragma unroll
    for (int j = 0; j < Cfg::kThreadN; j += kVec) {
      const int n = at.n + j / Cfg::kPieceN * Cfg::kLanesN * Cfg::kPieceN + j % Cfg::kPieceN;
      if (n >= columns) break;
      float values[kVec];
#pragma unroll
      for (int v = 0; v < kVec; ++v) values[v] = acc[i][j + v];
      target.store(m, n, values);
    }
  }
}

// A block's place in the work: which tile of which matrix, and which range of k.
struct Work {
  int64_t m0, n0, matrix, split;
};

// Tiles go down kGroup rows of tiles before the next column, so that the blocks of one wave share operands in L2.
template <class Cfg>
__device__ __forceinline__ Work place(int64_t tile, const GemmProblem& p, int64_t tiles_m, int64_t tiles_n) {
  constexpr int kGroup = 8;
  const int64_t matrix_and_split = divide(tile, tiles_m * tiles_n);
  const int64_t in_matrix = tile - matrix_and_split * tiles_m * tiles_n;
  const int64_t group = divide(in_matrix, kGroup * tiles_n);
  const int64_t in_group = in_matrix - group * kGroup * tiles_n;
  const int64_t rows_left = tiles_m - group * kGroup;
  const int64_t rows = rows_left < kGroup ? rows_left : kGroup;
  const int64_t column = divide(in_group, rows);
  const int64_t split = divide(matrix_and_split, p.batch);
  return {.m0 = (group * kGroup + in_group - column * rows) * Cfg::kM,
          .n0 = column * Cfg::kN,
          .matrix = matrix_and_split - split * p.batch,
          .split = split};
}

// Rows of the partials are padded, so that they can be stored in vectors whatever N is.
__device__ __forceinline__ int64_t partial_pitch(int64_t N) { return (N + 3) / 4 * 4; }

}  // namespace simt

extern __shared__ float4 simt_gemm_shared[];

template <class C>
__global__ void __launch_bounds__(C::threads, C::min_blocks)
    simt_gemm(const typename C::a_t* __restrict__ a, const typename C::b_t* __restrict__ b, typename C::d_t* d,
              const typename C::c_t* c, const typename C::c_t* bias, float* partials, GemmProblem p, int splits) {
  using namespace simt;
  using Cfg = Config<C>;
  using TileA = OperandTile<typename C::a_t, Cfg::kM, Cfg::kK, Cfg::kVec, Cfg::kWarps, C::a_layout_is_row>;
  using TileB = OperandTile<typename C::b_t, Cfg::kN, Cfg::kK, Cfg::kVec, Cfg::kWarps, !C::b_layout_is_row>;
  constexpr int kStageFloats = TileA::kFloats + TileB::kFloats;
  static_assert(2 * kStageFloats * sizeof(float) <= C::smem_bytes, "the manifest's shared memory holds both stages");

  float* const shared = reinterpret_cast<float*>(simt_gemm_shared);
  const LaneTile<Cfg> at;
  const int64_t tiles_m = ceil_div<int64_t>(p.M, Cfg::kM);
  const int64_t tiles_n = ceil_div<int64_t>(p.N, Cfg::kN);
  const int64_t k_per_split = ceil_div<int64_t>(ceil_div<int64_t>(p.K, Cfg::kK), splits) * Cfg::kK;

  const int64_t tile = block_in_grid();
  if (tile >= tiles_m * tiles_n * p.batch * splits) return;

  const Work work = place<Cfg>(tile, p, tiles_m, tiles_n);
  const int64_t k_begin = work.split * k_per_split;
  const int64_t k_end = k_begin + k_per_split < p.K ? k_begin + k_per_split : p.K;
  const int64_t rows = p.M - work.m0;
  const int64_t columns = p.N - work.n0;

  TileA tile_a(
      a + work.matrix * p.stride_a + (C::a_layout_is_row ? work.m0 * p.lda + k_begin : k_begin * p.lda + work.m0),
      p.lda, rows);
  TileB tile_b(
      b + work.matrix * p.stride_b + (C::b_layout_is_row ? k_begin * p.ldb + work.n0 : work.n0 * p.ldb + k_begin),
      p.ldb, columns);

  // Known before the sums are, its address costs fewer registers among them than what it comes from.
  const tile::EpilogueTarget<C> target = epilogue_target<C>(p, d, c, bias, work.matrix).at(work.m0, work.n0);
  float acc[Cfg::kThreadM][Cfg::kThreadN] = {};
  float fragment_a[2][Cfg::kThreadM];
  float fragment_b[2][Cfg::kThreadN];
  float* stage = shared;
  float* other_stage = shared + kStageFloats;
  tile_a.load(k_end - k_begin);
  tile_b.load(k_end - k_begin);
  tile_a.store(stage);
  tile_b.store(stage + TileA::kFloats);
  __syncthreads();
  // A turn multiplies one tile, while the next one is loaded and, late enough for it to have come and early enough to
  // hide the stores behind the multiply-adds left, stored into the other stage. One barrier a turn is enough: whoever
  // stores into a stage has passed the barrier after its last readers. The last turn loads and stores zeros in vain.
  constexpr int kStoreAt = Cfg::kK * 3 / 4;
#pragma unroll 1  // unrolled, shallow tiles run out of registers
  for (int64_t k0 = k_begin; k0 < k_end; k0 += Cfg::kK) {
    tile_a.load(k_end - k0 - Cfg::kK);
    tile_b.load(k_end - k0 - Cfg::kK);
    const auto read_fragments = [&](int k) {
      TileA::template read<Cfg::kPieceM, Cfg::kLanesM>(fragment_a[k % 2], stage, at.m, k);
      TileB::template read<Cfg::kPieceN, Cfg::kLanesN>(fragment_b[k % 2], stage + TileA::kFloats, at.n, k);
    };
    read_fragments(0);
#pragma unroll
    for (int k = 0; k < Cfg::kK; ++k) {
      if (k + 1 < Cfg::kK) read_fragments(k + 1);
      if (k == kStoreAt) {
        tile_a.store(other_stage);
        tile_b.store(other_stage + TileA::kFloats);
      }
#pragma unroll
      for (int i = 0; i < Cfg::kThreadM; ++i) {
#pragma unroll
        for (int j = 0; j < Cfg::kThreadN; ++j) {
          acc[i][j] = fmaf(fragment_a[k % 2][i], fragment_b[k % 2][j], acc[i][j]);
        }
      }
    }
    __syncthreads();
    float* const full = other_stage;
    other_stage = stage;
    stage = full;
  }

  if (splits == 1) {
    constexpr int kVec = larger(smaller(Cfg::kVec, Cfg::kPieceN), tile::EpilogueOf<C>::kStep);
    store_tile<Cfg, kVec>(acc, at, target, rows, columns);
  } else {
    const int64_t pitch = partial_pitch(p.N);
    float* const partial = partials + (work.split * p.batch + work.matrix) * p.M * pitch;
    store_tile<Cfg, Cfg::kPieceN>(acc, at, tile::PartialTarget{partial + work.m0 * pitch + work.n0, pitch}, rows,
                                  pitch - work.n0);
  }
}

// The epilogue over the sum of the partials, in order of k; an element of D a thread.
template <class C>
__global__ void __launch_bounds__(256)
    simt_gemm_reduce(const float* __restrict__ partials, typename C::d_t* d, const typename C::c_t* c,
                     const typename C::c_t* bias, GemmProblem p, int splits) {
  constexpr int kStep = tile::EpilogueOf<C>::kStep;
  const int64_t pitch = simt::partial_pitch(p.N);
  const int64_t columns = p.N / kStep;
  const int64_t elements = p.batch * p.M * columns;
  for (int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < elements; e += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = divide(e, columns);
    const int64_t matrix = divide(row, p.M);
    const int64_t n = (e - row * columns) * kStep;
    float sums[kStep] = {};
    for (int s = 0; s < splits; ++s) {
#pragma unroll
      for (int i = 0; i < kStep; ++i) sums[i] += partials[(s * p.batch * p.M + row) * pitch + n + i];
    }
    epilogue_target<C>(p, d, c, bias, matrix).at(row - matrix * p.M, n).store(0, 0, sums);
  }
}

}  // namespace kiln
