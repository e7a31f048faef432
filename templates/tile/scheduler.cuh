// Which piece of a batched matrix product a cluster works on, for persistent kernels: every cluster walks the pieces
// first, first + clusters, …, and its producer and consumers walk alike, so nothing is communicated.
#pragma once

#include "ptx/types.cuh"

namespace kiln::tile {

// The host fills this in. A tile here is what one cluster computes. inverse_x is 4294967295 / x, rounded down.
struct TileGrid {
  int32_t tiles_m;
  int32_t tiles_n;
  int32_t batch;
  int32_t split;           // each tile's K is cut into so many ranges, none empty
  int32_t k_blocks;        // blocks of K in all
  int32_t group;           // rows of tiles walked together, so that what runs at one time shares rows and columns in L2
  uint32_t inverse_tiles;  // x = tiles_m · tiles_n
  uint32_t inverse_split;  // x = split
  uint32_t inverse_group;  // x = group · tiles_n
  uint32_t inverse_group_rows;  // x = group
  uint32_t inverse_last_rows;   // x = tiles_m % group, or group where that is 0
};

// One range of K of one tile.
struct TileWork {
  int32_t m, n;
  int32_t batch;
  int32_t split;
  int32_t k_begin, k_end;  // in blocks of K
};

__device__ __forceinline__ uint32_t num_works(const TileGrid& grid) {
  return static_cast<uint32_t>(grid.tiles_m) * grid.tiles_n * grid.batch * grid.split;
}

// a / b for a < 2^31, given 4294967295 / b: the product is the quotient or one less.
__device__ __forceinline__ uint32_t divide_by(uint32_t a, uint32_t b, uint32_t inverse) {
  const uint32_t quotient = __umulhi(a, inverse);
  return quotient + (a - quotient * b >= b ? 1 : 0);
}

// NOTE: it stands on the way to a tile's first product, where a division that the hardware lacks would cost as much as
// a load.
__device__ __forceinline__ TileWork work_at(const TileGrid& grid, uint32_t index) {
  TileWork work{0, 0, 0, 0, 0, grid.k_blocks};
  const uint32_t tiles = static_cast<uint32_t>(grid.tiles_m) * grid.tiles_n;
  uint32_t tile = index;
  if (index >= tiles) {
    const uint32_t outer = divide_by(index, tiles, grid.inverse_tiles);
    tile = index - outer * tiles;
    work.batch = static_cast<int32_t>(divide_by(outer, grid.split, grid.inverse_split));
    work.split = static_cast<int32_t>(outer - work.batch * grid.split);
  }
  if (grid.split > 1) {
    work.k_begin = static_cast<int32_t>(divide_by(grid.k_blocks * work.split, grid.split, grid.inverse_split));
    work.k_end = static_cast<int32_t>(divide_by(grid.k_blocks * (work.split + 1), grid.split, grid.inverse_split));
  }

  const uint32_t in_group = static_cast<uint32_t>(grid.group) * grid.tiles_n;
  const uint32_t group = divide_by(tile, in_group, grid.inverse_group);
  const uint32_t place = tile - group * in_group;
  const int32_t first_m = static_cast<int32_t>(group) * grid.group;
  const bool whole = first_m + grid.group <= grid.tiles_m;
  const uint32_t rows = whole ? grid.group : grid.tiles_m - first_m;
  work.n = static_cast<int32_t>(divide_by(place, rows, whole ? grid.inverse_group_rows : grid.inverse_last_rows));
  work.m = first_m + static_cast<int32_t>(place - work.n * rows);
  return work;
}

// How many blocks of K the index-th work has.
__device__ __forceinline__ uint32_t k_blocks_of(const TileGrid& grid, uint32_t index) {
  if (grid.split == 1) return grid.k_blocks;
  const TileWork work = work_at(grid, index);
  return work.k_end - work.k_begin;
}

// The part of the work's K range that falls to one of `parts` blocks.
__device__ __forceinline__ TileWork part_of(TileWork work, int32_t part, int32_t parts) {
  const int32_t first = work.k_begin;
  const int32_t count = work.k_end - first;
  work.k_begin = first + count * part / parts;
  work.k_end = first + count * (part + 1) / parts;
  return work;
}

}  // namespace kiln::tile
