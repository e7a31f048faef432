// Passes a warp's mma.sync accumulators on to what stores them, in whole rows of the warp's tile.
#pragma once

#include "ptx/types.cuh"
#include "tile/vector.cuh"

namespace kiln::tile {

// A fragment scatters a row over four lanes in pairs; through shared memory each lane gets neighbours instead, and the
// warp writes rows of kCols elements. One slice of 16 rows is staged at a time, in memory of the warp's own.
template <int kRows, int kCols>
class WarpEpilogue {
  // 8 words of padding make the 8-byte stores of four rows (4 × 8 words) fall into different banks.
  static constexpr int kPitch = kCols + 8;

 public:
  static constexpr int kStagingBytes = 16 * kPitch * 4;
  using Accumulators = float[kRows / 16][kCols / 8][4];

  // Calls target.store(row, column, values) for pieces of kWidth values, of kStep at the end of a row, where kStep
  // divides `cols`. `rows` × `cols` of the warp's tile lie within D. `staging` is private to the warp, 16-byte aligned.
  template <int kWidth, int kStep, class Target>
  __device__ static void store(const Target& target, int rows, int cols, const Accumulators& accumulators,
                               float* staging) {
    const int slices = min(kRows / 16, ceil_div(rows, 16));
#pragma unroll 1
    for (int slice = 0; slice < slices; ++slice) {
      // Registers cannot be indexed; unrolling this choice rather than the whole loop keeps the code a third as long.
#pragma unroll
      for (int i = 0; i < kRows / 16; ++i) {
        if (i == slice) stage(accumulators[i], staging);
      }
      __syncwarp();
      store_slice<kWidth, kStep>(target, slice * 16, rows, cols, staging);
      __syncwarp();
    }
  }

 private:
  __device__ __forceinline__ static void stage(const float (&accumulators)[kCols / 8][4], float* staging) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float* row = staging + lane / 4 * kPitch + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kCols / 8; ++n) {
      *reinterpret_cast<Vector<float, 2>*>(row + n * 8) = {accumulators[n][0], accumulators[n][1]};
      *reinterpret_cast<Vector<float, 2>*>(row + 8 * kPitch + n * 8) = {accumulators[n][2], accumulators[n][3]};
    }
  }

  template <int kWidth, int kStep, class Target>
  __device__ __forceinline__ static void store_slice(const Target& target, int first_row, int rows, int cols,
                                                     const float* staging) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    constexpr int kPiecesInRow = kCols / kWidth;
#pragma unroll 2
    for (int piece = lane; piece < 16 * kPiecesInRow; piece += 32) {
      const int row = first_row + piece / kPiecesInRow;
      const int col = piece % kPiecesInRow * kWidth;
      if (row >= rows || col >= cols) continue;
      const float* source = staging + (row - first_row) * kPitch + col;
      if (col + kWidth <= cols) {
        target.store(row, col, reinterpret_cast<const Vector<float, kWidth>*>(source)->at);
        continue;
      }
      for (int i = 0; i < cols - col; i += kStep) {
        target.store(row, col + i, reinterpret_cast<const Vector<float, kStep>*>(source + i)->at);
      }
    }
  }
};

}  // namespace kiln::tile
