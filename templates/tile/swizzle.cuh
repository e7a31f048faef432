// The shared-memory patterns of TMA and wgmma. Rows of 32, 64 or 128 bytes follow one another; within each 16-byte unit
// of a row nothing moves, but a row's units are permuted by the row's number so that a column of units meets all banks.
#pragma once

#include "ptx/types.cuh"

namespace kiln::tile {

// Where byte `offset` of an unswizzled tile lies. The tile must start at a multiple of 8 · RowBytes (128B: 1024 bytes).
// Rows of other lengths have no pattern.
template <int RowBytes>
__host__ __device__ __forceinline__ constexpr uint32_t swizzle(uint32_t offset) {
  static_assert(RowBytes % 16 == 0, "a row is whole units of 16 bytes");
  return RowBytes == 32 || RowBytes == 64 || RowBytes == 128 ? offset ^ ((offset >> 3) & (RowBytes - 16)) : offset;
}

}  // namespace kiln::tile
