// Writes a warp's mma.sync accumulators to a row-major matrix in global memory, in whole rows of the warp's tile.
#pragma once

#include "ptx/types.cuh"

namespace kiln::tile {

// kWidth consecutive elements moved by one instruction.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Vector {
  T at[kWidth];
};

// D[rows, cols] = alpha · accumulators + beta · D, where D starts at the warp's tile and has `rows` × `cols` left.
struct OutputTile {
  int64_t row_stride;
  int rows, cols;
  float alpha, beta;
};

// values · alpha + beta · *d → *d. D is read only if beta is not 0.
template <class D, int kWidth>
__device__ __forceinline__ void scale_and_store(D* d, const float (&values)[kWidth], float alpha, float beta) {
  using V = Vector<D, kWidth>;
  V old = {};
  if (beta != 0.0f) old = *reinterpret_cast<const V*>(d);
  V result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float scaled = alpha * values[i];
    result.at[i] = from_float<D>(beta != 0.0f ? scaled + beta * to_float(old.at[i]) : scaled);
  }
  *reinterpret_cast<V*>(d) = result;
}

// A fragment scatters a row over four lanes in pairs; through shared memory each lane gets neighbours instead, and the
// warp writes rows of kCols elements. One slice of 16 rows is staged at a time, in memory of the warp's own.
template <int kRows, int kCols>
class WarpEpilogue {
  // 8 words of padding make the 8-byte stores of four rows (4 × 8 words) fall into different banks.
  static constexpr int kPitch = kCols + 8;

 public:
  static constexpr int kStagingBytes = 16 * kPitch * 4;
  using Accumulators = float[kRows / 16][kCols / 8][4];

  // kWidth > 1 requires rows of D aligned to kWidth elements. `staging` is private to the warp, 16-byte aligned.
  template <class D, int kWidth>
  __device__ static void store(D* d, const OutputTile& tile, const Accumulators& accumulators, float* staging) {
    const int slices = min(kRows / 16, ceil_div(tile.rows, 16));
#pragma unroll 1
    for (int slice = 0; slice < slices; ++slice) {
      // Registers cannot be indexed; unrolling this choice rather than the whole loop keeps the code a third as long.
#pragma unroll
      for (int i = 0; i < kRows / 16; ++i) {
        if (i == slice) stage(accumulators[i], staging);
      }
      __syncwarp();
      store_slice<D, kWidth>(d + slice * 16 * tile.row_stride, tile, tile.rows - slice * 16, staging);
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

  template <class D, int kWidth>
  __device__ __forceinline__ static void store_slice(D* d, const OutputTile& tile, int rows, const float* staging) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    constexpr int kPiecesInRow = kCols / kWidth;
#pragma unroll 2
    for (int piece = lane; piece < 16 * kPiecesInRow; piece += 32) {
      const int row = piece / kPiecesInRow;
      const int col = piece % kPiecesInRow * kWidth;
      if (row >= rows || col >= tile.cols) continue;
      const float* source = staging + row * kPitch + col;
      D* target = d + row * tile.row_stride + col;
      if (col + kWidth <= tile.cols) {
        const auto values = *reinterpret_cast<const Vector<float, kWidth>*>(source);
        scale_and_store(target, values.at, tile.alpha, tile.beta);
        continue;
      }
      for (int i = 0; i < tile.cols - col; ++i) {
        const float value[1] = {source[i]};
        scale_and_store(target + i, value, tile.alpha, tile.beta);
      }
    }
  }
};

}  // namespace kiln::tile
