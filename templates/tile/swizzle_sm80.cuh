// Where a 16-byte chunk of a row-major tile lies in shared memory, so that both the copies that fill the tile (along
// rows) and the fragment loads that empty it (down columns) touch all 32 banks.
#pragma once

#include "ptx/types.cuh"

namespace kiln::tile {

// Chunks of row r change places by XOR with `mask(r)`. A 128-byte line of shared memory holds one row, a part of one,
// or several short ones; rows that share a line need no exchange, hence the shift. kGranule is how many chunks stay
// together: 1 for ldmatrix, which reads one chunk of 8 rows; 2 for plain 32-bit loads of a warp, which read 32 bytes of
// 4 rows.
//
// The mask is linear over XOR: mask(r ^ s) == mask(r) ^ mask(s). Readers and writers rely on it: they swizzle their own
// row once and reach all others by an XOR with a compile-time constant.
template <int kRowBytes, int kGranule>
struct Swizzle {
  static_assert(kRowBytes >= 32 && (kRowBytes & (kRowBytes - 1)) == 0,
                "rows are a power of two of at least two chunks");
  static_assert(kGranule == 1 || kGranule == 2, "one chunk or a pair");

  static constexpr int kChunks = kRowBytes / 16;
  static constexpr int kChunksInLine = kChunks < 8 ? kChunks : 8;
  static constexpr int kRowsInLine = 8 / kChunksInLine;

  __host__ __device__ static constexpr int mask(int row) {
    return (row / kRowsInLine) % (kChunksInLine / kGranule) * kGranule;
  }

  // Byte offset of a chunk from the tile's first byte.
  __host__ __device__ static constexpr int offset(int row, int chunk) {
    return row * kRowBytes + ((chunk ^ mask(row)) * 16);
  }
};

}  // namespace kiln::tile
