// Rows in shared memory for ldmatrix, of any length: each is followed by 16 bytes of padding, so that eight rows of one
// column lie in different banks without a swizzle, and every address is a base and a constant. Rows are whole pairs of
// 16-byte units, since an mma takes 16 elements; what the matrix does not have of them is zero.
#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/types.cuh"

namespace kiln::tile {

// kCols elements of 16 bits from the matrix, in rows that have room for kRoom (at least kCols).
template <class T, int kRows, int kCols, int kRoom = kCols>
struct PaddedRows {
  static_assert(sizeof(T) == 2 && kRoom >= kCols, "rows of 16-bit elements, with room for all of them");
  static constexpr int kUsed = (kCols + 15) / 16 * 16;
  static constexpr int kPitch = ((kRoom + 15) / 16 * 16 + 8) * 2;  // bytes: an odd number of 16-byte units
  static constexpr int kBytes = kRows * kPitch;

  // Starts filling the tile at `shared` with the rows from `first` on of a matrix that ends before row `rows`, by all
  // kThreads threads of the block. A copy takes kCopyBytes at a time, which must divide the address of every row and
  // the bytes of kCols elements; 2: by ordinary loads and stores.
  template <int kThreads, int kCopyBytes>
  __device__ __forceinline__ static void copy(uint32_t shared, const T* matrix, int64_t row_stride, int64_t first,
                                              int64_t rows) {
    constexpr int kElements = kCopyBytes / 2;
    constexpr int kPieces = kUsed / kElements;                  // of a row
    constexpr int kAcross = kPieces & -kPieces;                 // the largest power of two that divides it
    constexpr int kThreadsInRow = kAcross < 32 ? kAcross : 32;  // neighbours read neighbouring pieces
    constexpr int kRowStep = kThreads / kThreadsInRow;
    static_assert(kThreads % kThreadsInRow == 0, "every thread has a place in a row");

    const int thread = thread_read_anew();
    const int own_row = thread / kThreadsInRow;
    const int own_col = thread % kThreadsInRow * kElements;
    const int left = static_cast<int>(min(rows - first, static_cast<int64_t>(kRows))) - own_row;
    const T* source = matrix + (first + own_row) * row_stride + own_col;
    const uint32_t target = shared + own_row * kPitch + own_col * 2;
#pragma unroll
    for (int row = 0; row < kRows; row += kRowStep) {
      if (kRows % kRowStep != 0 && own_row + row >= kRows) break;
#pragma unroll
      for (int col = 0; col < kUsed; col += kThreadsInRow * kElements) {
        const bool inside = row < left && (kCols == kUsed || own_col + col < kCols);
        copy_piece<kCopyBytes>(target + row * kPitch + col * 2, source + col, inside);
      }
      source += kRowStep * row_stride;
    }
  }

  // ldmatrix addresses of this lane, to which row and column offsets are added: see `at`.
  // The left operand of a product over the columns: 16 rows, 16 columns.
  __device__ static uint32_t lane_of_rows() {
    const int lane = thread_read_anew() % 32;
    return lane % 16 * kPitch + lane / 16 * 16;
  }
  // The right operand of a product over the columns: registers 0, 1 are of rows 0 … 7, registers 2, 3 of rows 8 … 15.
  __device__ static uint32_t lane_of_columns() {
    const int lane = thread_read_anew() % 32;
    return (lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 16;
  }
  // The right operand of a product over the rows (read with transposition): registers 0, 1 are of columns 0 … 7,
  // registers 2, 3 of columns 8 … 15. The same address as of the left operand.
  __device__ static uint32_t lane_of_transposed() { return lane_of_rows(); }

  __host__ __device__ static constexpr uint32_t at(int row, int col) { return row * kPitch + col * 2; }

 private:
  // %tid.x. Volatile, so that the addresses made of it are computed for each copy and hold no registers in between.
  __device__ __forceinline__ static int thread_read_anew() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
  }

  template <int kCopyBytes>
  __device__ __forceinline__ static void copy_piece(uint32_t target, const T* source, bool inside) {
    if constexpr (kCopyBytes == 2) {
      const uint16_t bits = inside ? source->bits : static_cast<uint16_t>(0);
      *static_cast<uint16_t*>(__cvta_shared_to_generic(target)) = bits;
    } else {
      ptx::cp_async_or_zero<kCopyBytes>(target, source, inside);
    }
  }
};

}  // namespace kiln::tile
