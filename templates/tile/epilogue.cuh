// From the accumulators of a warpgroup to a row-major matrix in global memory.
// A block is what one warpgroup's wgmma computes: 64 rows × N columns, in the register order that ptx/wgmma.cuh states.
// Transposed says that the block holds the transpose of a piece of D: its rows run along D's columns.
// A block goes out directly, or by way of a swizzled tile in shared memory and TMA.
#pragma once

#include "ptx/shared_memory.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "tile/swizzle.cuh"

namespace kiln::tile {

inline constexpr int kBlockRows = 64;
inline constexpr int kWarpgroupThreads = 128;

// A row-major matrix that blocks are stored to.
template <class T>
struct Output {
  T* d;
  int64_t ldd;
  int32_t m, n;
};

// Calls visit(element of D, value) for each accumulator of the calling thread that lies within D; the block's first
// element is D's (m, n).
template <int N, bool Transposed, class T, class Visit>
__device__ __forceinline__ void for_each_element(float (&block)[N / 2], const Output<T>& out, int32_t m, int32_t n,
                                                 Visit visit) {
  const int thread = threadIdx.x % kWarpgroupThreads;
  const int32_t row = thread / 32 * 16 + thread % 32 / 4;
  const int32_t column = thread % 4 * 2;
  const int32_t columns_left = (Transposed ? out.m - m : out.n - n) - column;
  const int64_t column_stride = Transposed ? out.ldd : 1;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t at_m = m + (Transposed ? column : row + half * 8);
    const int32_t at_n = n + (Transposed ? row + half * 8 : column);
    // One comparison for each element keeps what is compiled small: a row outside D has no columns.
    const int32_t limit = (Transposed ? at_n < out.n : at_m < out.m) ? columns_left : 0;
    T* at = out.d + at_m * out.ldd + at_n;
#pragma unroll
    for (int j = 0; j < N / 8; ++j, at += 8 * column_stride) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (j * 8 + i < limit) visit(at[i * column_stride], block[j * 4 + half * 2 + i]);
      }
    }
  }
}

// Stores two neighbours of a row at once; `to` is aligned to both.
__device__ __forceinline__ void store_pair(float* to, float x, float y) {
  *reinterpret_cast<float2*>(to) = make_float2(x, y);
}
template <class T>
__device__ __forceinline__ void store_pair(T* to, float x, float y) {
  *reinterpret_cast<uint32_t*>(to) = pack<T>(x, y);
}

// Stores the block from registers, for any alignment of D.
template <int N, bool Transposed, class T>
__device__ __forceinline__ void store_block(float (&block)[N / 2], const Output<T>& out, int32_t m, int32_t n) {
  const bool pairs = (reinterpret_cast<uint64_t>(out.d) | out.ldd * sizeof(T)) % (2 * sizeof(T)) == 0;
  if (!Transposed && pairs && n + N <= out.n) {
    const int thread = threadIdx.x % kWarpgroupThreads;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t at_m = m + thread / 32 * 16 + thread % 32 / 4 + half * 8;
      if (at_m >= out.m) continue;
      T* row = out.d + at_m * out.ldd + n + thread % 4 * 2;
#pragma unroll
      for (int j = 0; j < N / 8; ++j) store_pair(row + j * 8, block[j * 4 + half * 2], block[j * 4 + half * 2 + 1]);
    }
  } else {
    for_each_element<N, Transposed>(block, out, m, n, [](T& to, float value) { to = from_float<T>(value); });
  }
}

// The same for the blocks of a warpgroup, which follow one another along D's rows, along its columns where Transposed.
template <int N, bool Transposed, class T, int Blocks>
__device__ __forceinline__ void store_blocks_directly(float (&blocks)[Blocks][N / 2], const Output<T>& out, int32_t m,
                                                      int32_t n) {
#pragma unroll
  for (int b = 0; b < Blocks; ++b) {
    const int offset = b * kBlockRows;
    store_block<N, Transposed>(blocks[b], out, Transposed ? m : m + offset, Transposed ? n + offset : n);
  }
}

// How blocks of type T and N columns travel through shared memory: in chunks, each one or two TMA boxes with rows of
// kRowBytes. A chunk is 64 rows × kColumns of the block; of a transposed block it is all of it, as N rows × 64 columns.
// Rows of an odd number of 32 bytes meet the banks in pairs, well enough to go without a swizzle and in one piece.
template <class T, int N, bool Transposed>
struct StoreChunk {
  static constexpr int kRowElements = 128 / static_cast<int>(sizeof(T));
  static constexpr int kColumns = Transposed                    ? N
                                  : N % kRowElements == 0       ? kRowElements
                                  : N % (kRowElements / 2) == 0 ? kRowElements / 2
                                                                : N;
  static_assert(Transposed || N % kColumns == 0, "chunks must cover the block");
  static constexpr int kRowBytes = Transposed ? 128 : kColumns * static_cast<int>(sizeof(T));
  static constexpr int kBoxRows = Transposed ? N : kBlockRows;
  static constexpr int kBoxes = Transposed ? kBlockRows / kRowElements : 1;
  static constexpr int kBoxBytes = kBoxRows * kRowBytes;
  static constexpr int kBytes = kBoxes * kBoxBytes;
  static constexpr int kPerBlock = N / kColumns;
};

// The thread's pair in columns 8 · j on, of the upper (0) or lower (1) eight rows, as 16-bit values.
template <class T, int Count>
__device__ __forceinline__ uint32_t packed_pair(const float (&block)[Count], int j, int half) {
  return pack<T>(block[j * 4 + half * 2], block[j * 4 + half * 2 + 1]);
}

// Writes chunk `index` (a constant once unrolled) of the block to `buffer`, swizzled as its TMA box is.
template <int N, bool Transposed, class T>
__device__ __forceinline__ void stage_chunk(float (&block)[N / 2], int index, uint32_t buffer) {
  using Chunk = StoreChunk<T, N, Transposed>;
  const int thread = threadIdx.x % kWarpgroupThreads;
  const int warp = thread / 32;
  const int lane = thread % 32;

  if constexpr (!Transposed && sizeof(T) == 2) {
    const int row = warp * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < Chunk::kColumns / 16; ++i) {
      const int j = index * Chunk::kColumns / 8 + i * 2;
      const uint32_t offset = row * Chunk::kRowBytes + (i * 2 + lane / 16) * 16;
      ptx::stmatrix_x4(buffer + swizzle<Chunk::kRowBytes>(offset), packed_pair<T>(block, j, 0),
                       packed_pair<T>(block, j, 1), packed_pair<T>(block, j + 1, 0), packed_pair<T>(block, j + 1, 1));
    }
  } else if constexpr (!Transposed) {
#pragma unroll
    for (int i = 0; i < Chunk::kColumns / 8; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int e = (index * Chunk::kColumns / 8 + i) * 4 + half * 2;
        const uint32_t offset = (warp * 16 + lane / 4 + half * 8) * Chunk::kRowBytes + i * 32 + lane % 4 * 8;
        ptx::st_shared(buffer + swizzle<Chunk::kRowBytes>(offset), block[e], block[e + 1]);
      }
    }
  } else if constexpr (sizeof(T) == 2) {
    // Matrix (j, half) has D's rows 8 · j on and its 16-byte unit 2 · warp + half.
    const uint32_t unit = (warp * 2 + lane / 8 % 2) * 16;
#pragma unroll
    for (int j = 0; j + 1 < N / 8; j += 2) {
      const uint32_t offset = (j * 8 + lane / 16 * 8 + lane % 8) * 128 + unit;
      ptx::stmatrix_x4_trans(buffer + swizzle<128>(offset), packed_pair<T>(block, j, 0), packed_pair<T>(block, j, 1),
                             packed_pair<T>(block, j + 1, 0), packed_pair<T>(block, j + 1, 1));
    }
    if constexpr (N / 8 % 2 == 1) {
      constexpr int j = N / 8 - 1;
      ptx::stmatrix_x2_trans(buffer + swizzle<128>((j * 8 + lane % 8) * 128 + unit), packed_pair<T>(block, j, 0),
                             packed_pair<T>(block, j, 1));
    }
  } else {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const uint32_t row = warp * 16 + lane / 4 + i / 2 % 2 * 8;
      const uint32_t column = lane % 4 * 2 + i / 4 * 8 + i % 2;
      const uint32_t offset = column * 128 + row % Chunk::kRowElements * 4;
      ptx::st_shared(buffer + row / Chunk::kRowElements * Chunk::kBoxBytes + swizzle<128>(offset), block[i]);
    }
  }
}

// Issues the TMA stores of a chunk whose first element is D's (m, n). By one thread, which then closes their group.
template <class Chunk>
__device__ __forceinline__ void store_chunk(const TensorMap& map, uint32_t buffer, int32_t m, int32_t n,
                                            int32_t batch) {
#pragma unroll
  for (int box = 0; box < Chunk::kBoxes; ++box) {
    ptx::tma_store(map, buffer + box * Chunk::kBoxBytes, n + box * Chunk::kRowElements, m, batch);
  }
}

// Stores `Blocks` blocks of a warpgroup through a ring of `Buffers` chunks at `ring`, which is this warpgroup's own.
// The chunks are those of `source`: for each in turn source.prepare(chunk) makes it ready, and source.stage(chunk,
// buffer) writes it to its buffer. The last stores are still under way on return, so that they overlap what follows;
// the next call waits where it must. The blocks follow one another along D's rows, along its columns where Transposed;
// (m, n) is where the first one lies.
//
// Chunks go out in batches, since each costs two barriers: all at once where the ring holds them, else half a ring, so
// that one half is filled while the other is read.
//
// NOTE: all 128 threads of the warpgroup call it, and barrier `barrier` must be theirs alone.
template <int Buffers, int N, bool Transposed, class T, int Blocks, class Source>
__device__ __forceinline__ void store_blocks(Source& source, const TensorMap& map, uint32_t ring, uint32_t barrier,
                                             int32_t m, int32_t n, int32_t batch) {
  using Chunk = StoreChunk<T, N, Transposed>;
  constexpr int kChunks = Blocks * Chunk::kPerBlock;
  // Then a chunk's buffer is a constant, and each call starts at the buffer used longest ago.
  static_assert(kChunks % Buffers == 0, "the ring must divide the chunks of a tile");
  constexpr int kBatch = kChunks == Buffers || Buffers % 2 == 1 ? Buffers : Buffers / 2;
  const bool issuer = threadIdx.x % kWarpgroupThreads == 0;
#pragma unroll
  for (int first = 0; first < kChunks; first += kBatch) {
#pragma unroll
    for (int i = first; i < first + kBatch; ++i) source.prepare(i);
    if (issuer) ptx::bulk_wait_group_read<Buffers / kBatch - 1>();
    ptx::named_barrier_sync(barrier, kWarpgroupThreads);
#pragma unroll
    for (int i = first; i < first + kBatch; ++i) source.stage(i, ring + i % Buffers * Chunk::kBytes);
    ptx::fence_proxy_async_shared();
    ptx::named_barrier_sync(barrier, kWarpgroupThreads);
    if (issuer) {
#pragma unroll
      for (int i = first; i < first + kBatch; ++i) {
        const int b = i / Chunk::kPerBlock;
        const int c = i % Chunk::kPerBlock;
        store_chunk<Chunk>(map, ring + i % Buffers * Chunk::kBytes, Transposed ? m : m + b * kBlockRows,
                           Transposed ? n + b * kBlockRows : n + c * Chunk::kColumns, batch);
      }
      ptx::bulk_commit_group();
    }
  }
}

}  // namespace kiln::tile
