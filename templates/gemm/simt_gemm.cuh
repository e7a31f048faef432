// D[M,N] = alpha · A[M,K] · B[K,N] + beta · D with fp32 multiply-adds on the ordinary cores: the template that takes every
// problem. Any dtypes, layouts, leading dimensions, strides and sizes, and any pointer aligned to its element.
//
//   device memory ── VEC elements a load ──> registers ── to fp32 ──> shared memory, 2 stages ──> fragments ──> accumulators
//
// A block owns a BM × BN tile of D. Both operands stand in shared memory k-major, A as [BK][BM] and B as [BK][BN], so that
// a fragment is read in pieces of 4 floats whatever the layout in device memory. A warp owns LM·TM × LN·TN of the tile, its
// lanes LM × LN, and a lane TM × TN values: pieces of 4 rows and 4 columns that lie LM·4 rows and LN·4 columns apart, which
// makes the pieces of neighbouring lanes neighbours in shared memory and in D.
// With `splits` > 1 each block sums a range of k into fp32 partials, and simt_gemm_reduce adds them up in order.
#pragma once

#include "tile/gemm_problem.cuh"

namespace kiln {
namespace simt {

__host__ __device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }

template <class T, int V>
struct alignas(sizeof(T) * V) Vector {
  T at[V];
};

// Most indices fit in 32 bits, where a division is several times cheaper.
__device__ __forceinline__ int64_t divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

template <class C>
struct Config {
  static constexpr int kM = C::BM;
  static constexpr int kN = C::BN;
  static constexpr int kK = C::BK;
  static constexpr int kThreadM = C::TM;
  static constexpr int kThreadN = C::TN;
  static constexpr int kVec = C::VEC;
  static constexpr int kLanesM = smaller(4, kM / kThreadM);
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

// One operand's way from device memory to its [BK][MN] shared tile, for one thread. MN is M for A and N for B; kAlongK says
// that k is the contiguous dimension in device memory.
//
// A warp's load covers a slab of the tile. Where k is contiguous the slab is 8 values of k by up to 32/8·VEC rows: each row
// is a whole 32-byte sector of fp32, and with kPitch = MN + 4 the 32 lanes of a transposing store hit 32 different banks.
template <class T, int kMn, int kDepth, int kVec, int kWarps, bool kAlongK>
struct OperandTile {
  static constexpr int kLanesMn = kAlongK ? smaller(4 * kVec, kMn) : smaller(32, kMn / kVec);
  static constexpr int kLanesK = 32 / kLanesMn;
  static constexpr int kSlabMn = kLanesMn * (kAlongK ? 1 : kVec);
  static constexpr int kSlabK = kLanesK * (kAlongK ? kVec : 1);
  static constexpr int kSlabsMn = kMn / kSlabMn;
  static constexpr int kSlabs = kSlabsMn * (kDepth / kSlabK);
  static constexpr int kLoads = ceil_div(kSlabs, kWarps);
  static constexpr int kPitch = kMn + (kAlongK ? 4 : 0);
  static constexpr int kFloats = kDepth * kPitch;

  static_assert(kMn % kSlabMn == 0 && kDepth % kSlabK == 0, "whole slabs must cover the tile");
  static_assert(kSlabsMn % kWarps == 0 || kWarps % kSlabsMn == 0, "a thread's loads must be a fixed step apart");
  static_assert(kSlabs % kWarps == 0 || kSlabs < kWarps, "all warps load equally often, or some not at all");

  using Load = Vector<T, kVec>;

  int mn;               // this thread's first element in the tile
  int k;
  bool takes_part;
  int mn_left;          // rows of the operand from the tile's first one on, at most kMn
  int64_t leading;
  const T* next;        // address of element (mn, k) of the next tile along k
  Load staged[kLoads];

  // The step from a thread's first load to load i.
  static constexpr __device__ int step_mn(int i) { return i * kWarps % kSlabsMn * kSlabMn; }
  static constexpr __device__ int step_k(int i) { return i * kWarps / kSlabsMn * kSlabK; }

  // `origin`: address of element (first row of the tile, first k). `rows_left` counts the operand's rows from there.
  __device__ __forceinline__ OperandTile(const T* origin, int64_t leading_dim, int64_t rows_left) : leading(leading_dim) {
    const int lane = threadIdx.x % 32;
    const int slab = threadIdx.x / 32;
    mn = slab % kSlabsMn * kSlabMn + (kAlongK ? lane / kLanesK : lane % kLanesMn * kVec);
    k = slab / kSlabsMn * kSlabK + (kAlongK ? lane % kLanesK * kVec : lane / kLanesMn);
    takes_part = slab < kSlabs;
    mn_left = rows_left < kMn ? static_cast<int>(rows_left) : kMn;
    next = origin + offset(mn, k);
  }

  __device__ __forceinline__ int64_t offset(int row, int depth) const {
    return kAlongK ? row * leading + depth : depth * leading + row;
  }

  // Starts the loads of the next tile along k, of which `k_left` values of k exist. What is outside becomes zero.
  __device__ __forceinline__ void load(int64_t k_left) {
    if (takes_part) {
      if (mn_left == kMn && k_left >= kDepth) {
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          staged[i] = *reinterpret_cast<const Load*>(next + offset(step_mn(i), step_k(i)));
        }
      } else {
#pragma unroll
        for (int i = 0; i < kLoads; ++i) staged[i] = load_edge(i, k_left);
      }
    }
    next += kAlongK ? kDepth : kDepth * leading;
  }

  __device__ __forceinline__ Load load_edge(int i, int64_t k_left) const {
    const T* from = next + offset(step_mn(i), step_k(i));
    const int across_left = mn_left - mn - step_mn(i);
    const int64_t depth_left = k_left - k - step_k(i);
    const int64_t along = kAlongK ? depth_left : across_left;
    const bool line_exists = kAlongK ? across_left > 0 : depth_left > 0;
    if (line_exists && along >= kVec) return *reinterpret_cast<const Load*>(from);
    Load result = {};
#pragma unroll
    for (int v = 0; v < kVec; ++v) {
      if (line_exists && v < along) result.at[v] = from[v];
    }
    return result;
  }

  __device__ __forceinline__ void store(float* tile) const {
    if (!takes_part) return;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      float* to = tile + (k + step_k(i)) * kPitch + mn + step_mn(i);
      if constexpr (kAlongK) {
#pragma unroll
        for (int v = 0; v < kVec; ++v) to[v * kPitch] = to_float(staged[i].at[v]);
      } else {
        Vector<float, kVec> values;
#pragma unroll
        for (int v = 0; v < kVec; ++v) values.at[v] = to_float(staged[i].at[v]);
        *reinterpret_cast<Vector<float, kVec>*>(to) = values;
      }
    }
  }
};

// `row`: the first of this lane's pieces in one row of a shared tile; the others follow kLanes pieces apart.
template <int kPiece, int kLanes, int kCount>
__device__ __forceinline__ void load_fragment(float (&fragment)[kCount], const float* row) {
#pragma unroll
  for (int i = 0; i < kCount / kPiece; ++i) {
    const auto piece = *reinterpret_cast<const Vector<float, kPiece>*>(row + i * kLanes * kPiece);
#pragma unroll
    for (int v = 0; v < kPiece; ++v) fragment[i * kPiece + v] = piece.at[v];
  }
}

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

// Writes a lane's values to `d`, the address of the block's tile; rows and columns count what exists of D from there.
template <class Cfg, int kVec, class D>
__device__ __forceinline__ void store_tile(const float (&acc)[Cfg::kThreadM][Cfg::kThreadN], LaneTile<Cfg> at, D* d,
                                           int64_t ldd, int64_t rows, int64_t columns, float alpha, float beta) {
  using Store = Vector<D, kVec>;
#pragma unroll
  for (int i = 0; i < Cfg::kThreadM; ++i) {
    const int m = at.m + i / Cfg::kPieceM * Cfg::kLanesM * Cfg::kPieceM + i % Cfg::kPieceM;
    if (m >= rows) return;
#pragma unroll
    for (int j = 0; j < Cfg::kThreadN; j += kVec) {
      const int n = at.n + j / Cfg::kPieceN * Cfg::kLanesN * Cfg::kPieceN + j % Cfg::kPieceN;
      D* to = d + m * ldd + n;
      if (n + kVec <= columns) {
        Store values = {};
        if (beta != 0.0f) values = *reinterpret_cast<const Store*>(to);
#pragma unroll
        for (int v = 0; v < kVec; ++v) values.at[v] = finish_element(acc[i][j + v], alpha, beta, values.at[v]);
        *reinterpret_cast<Store*>(to) = values;
      } else {
#pragma unroll
        for (int v = 0; v < kVec; ++v) {
          if (n + v < columns) to[v] = finish_element(acc[i][j + v], alpha, beta, to[v]);
        }
      }
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
              float* partials, GemmProblem p, int splits) {
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

  // A batch of tiny matrices can have more tiles than a grid is wide: then the grid has several rows.
  const int64_t tile = int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  if (tile >= tiles_m * tiles_n * p.batch * splits) return;

  const Work work = place<Cfg>(tile, p, tiles_m, tiles_n);
  const int64_t k_begin = work.split * k_per_split;
  const int64_t k_end = k_begin + k_per_split < p.K ? k_begin + k_per_split : p.K;
  const int64_t rows = p.M - work.m0;
  const int64_t columns = p.N - work.n0;

  TileA tile_a(a + work.matrix * p.stride_a +
                   (C::a_layout_is_row ? work.m0 * p.lda + k_begin : k_begin * p.lda + work.m0), p.lda, rows);
  TileB tile_b(b + work.matrix * p.stride_b +
                   (C::b_layout_is_row ? k_begin * p.ldb + work.n0 : work.n0 * p.ldb + k_begin), p.ldb, columns);

  float acc[Cfg::kThreadM][Cfg::kThreadN] = {};
  // Turn t loads tile t, computes tile t-1 while the loads are under way, then stores tile t into the other stage. One
  // barrier a turn is enough: whoever stores into a stage has passed the barrier after its last readers.
  float* stage = shared;
  float* other_stage = shared + kStageFloats;
#pragma unroll 1  // unrolled, shallow tiles run out of registers
  for (int64_t k0 = k_begin;; k0 += Cfg::kK) {
    const bool more = k0 < k_end;
    if (more) {
      tile_a.load(k_end - k0);
      tile_b.load(k_end - k0);
    }
    if (k0 > k_begin) {
      const float* from_a = other_stage + at.m;
      const float* from_b = other_stage + TileA::kFloats + at.n;
      float fragment_a[2][Cfg::kThreadM];
      float fragment_b[2][Cfg::kThreadN];
      load_fragment<Cfg::kPieceM, Cfg::kLanesM>(fragment_a[0], from_a);
      load_fragment<Cfg::kPieceN, Cfg::kLanesN>(fragment_b[0], from_b);
#pragma unroll
      for (int k = 0; k < Cfg::kK; ++k) {
        if (k + 1 < Cfg::kK) {
          load_fragment<Cfg::kPieceM, Cfg::kLanesM>(fragment_a[(k + 1) % 2], from_a + (k + 1) * TileA::kPitch);
          load_fragment<Cfg::kPieceN, Cfg::kLanesN>(fragment_b[(k + 1) % 2], from_b + (k + 1) * TileB::kPitch);
        }
#pragma unroll
        for (int i = 0; i < Cfg::kThreadM; ++i) {
#pragma unroll
          for (int j = 0; j < Cfg::kThreadN; ++j) {
            acc[i][j] = fmaf(fragment_a[k % 2][i], fragment_b[k % 2][j], acc[i][j]);
          }
        }
      }
    }
    if (!more) break;
    tile_a.store(stage);
    tile_b.store(stage + TileA::kFloats);
    __syncthreads();
    float* const full = stage;
    stage = other_stage;
    other_stage = full;
  }

  if (splits == 1) {
    constexpr int kVec = smaller(Cfg::kVec, Cfg::kPieceN);
    store_tile<Cfg, kVec>(acc, at, d + work.matrix * p.stride_d + work.m0 * p.ldd + work.n0, p.ldd, rows, columns,
                          p.alpha, p.beta);
  } else {
    const int64_t pitch = partial_pitch(p.N);
    float* const partial = partials + (work.split * p.batch + work.matrix) * p.M * pitch;
    store_tile<Cfg, Cfg::kPieceN>(acc, at, partial + work.m0 * pitch + work.n0, pitch, rows, pitch - work.n0, 1.0f, 0.0f);
  }
}

// D = alpha · (sum of the partials, in order of k) + beta · D, an element a thread.
template <class C>
__global__ void __launch_bounds__(256)
    simt_gemm_reduce(const float* __restrict__ partials, typename C::d_t* d, GemmProblem p, int splits) {
  const int64_t pitch = simt::partial_pitch(p.N);
  const int64_t elements = p.batch * p.M * p.N;
  for (int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < elements; e += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = simt::divide(e, p.N);
    const int64_t matrix = simt::divide(row, p.M);
    const int64_t n = e - row * p.N;
    float sum = 0.0f;
    for (int s = 0; s < splits; ++s) sum += partials[(s * p.batch * p.M + row) * pitch + n];
    typename C::d_t& element = d[matrix * p.stride_d + (row - matrix * p.M) * p.ldd + n];
    element = finish_element(sum, p.alpha, p.beta, element);
  }
}

}  // namespace kiln
