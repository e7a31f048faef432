// Fills a swizzled tile in shared memory from a matrix in global memory by cp.async, all threads of the block together.
#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/types.cuh"
#include "tile/swizzle_sm80.cuh"

namespace kiln::tile {

// A tile of kRows × kCols elements, columns contiguous, copied in pieces of kCopyBytes (4, 8 or 16), which must divide
// the address of every row; pieces of more than 4 bytes must divide the length of the rows too. What lies outside the
// matrix becomes zero and is never read.
// Each thread owns the same pieces of every tile, and walks through the matrix tile by tile.
template <class T, class Layout, int kRows, int kCols, int kThreads, int kCopyBytes>
class TileCopy {
  static constexpr int kElements = kCopyBytes / sizeof(T);
  static constexpr int kPiecesInRow = kCols / kElements;
  static constexpr int kPieces = kRows * kPiecesInRow;
  static constexpr int kRowStep = kThreads < kPiecesInRow ? 1 : kThreads > kPieces ? kRows : kThreads / kPiecesInRow;
  static constexpr int kRowSteps = kRows / kRowStep;
  static constexpr int kColSteps = kPiecesInRow > kThreads ? kPiecesInRow / kThreads : 1;
  static constexpr int kRowBytes = kCols * static_cast<int>(sizeof(T));

 public:
  // How many pieces each thread copies. When there are fewer pieces than threads, the last threads have none.
  static constexpr int kPiecesPerThread = kRowSteps * kColSteps;

  // `origin` is the first element of the first tile, `rows` × `cols` what the matrix has from there on.
  __device__ TileCopy(const T* origin, int64_t row_stride, int rows, int cols) {
    const int thread = static_cast<int>(threadIdx.x);
    const int row = thread / kPiecesInRow;
    const int col = thread % kPiecesInRow * kElements;
    source_ = origin + row * row_stride + col;
    row_step_ = kRowStep * row_stride;
    rows_ = rows - row;
    cols_ = cols - col;
    offset_ = Layout::offset(row, col * static_cast<int>(sizeof(T)) / 16) + col * static_cast<int>(sizeof(T)) % 16;
    has_pieces_ = row < kRows;
  }

  // Starts the copies of pieces [first, last) of this thread into the tile at `shared`. Each piece of a tile must be
  // started exactly once, in order, before the next call of advance_*().
  __device__ __forceinline__ void start(uint32_t shared, int first, int last) {
#pragma unroll
    for (int i = 0; i < kPiecesPerThread; ++i) {
      if (i < first || i >= last) continue;
      const int row = i / kColSteps * kRowStep;
      const int col = i % kColSteps * kThreads * kElements;
      // A thread's own row lies below kRowStep, so the swizzle of `row` can be applied apart (see Swizzle).
      const uint32_t target = shared + (offset_ ^ (Layout::mask(row) * 16)) + row * kRowBytes + col * sizeof(T);
      if (kPieces >= kThreads || has_pieces_) copy(target, source_ + col, row < rows_ ? cols_ - col : 0);
      // One pointer walks down the rows: an address apiece would cost two registers each.
      if (i % kColSteps == kColSteps - 1) source_ += row_step_;
    }
  }

  // Go on to the next tile to the right, or the next one down.
  __device__ __forceinline__ void advance_cols() {
    source_ += kCols - kRowSteps * row_step_;
    cols_ -= kCols;
  }
  __device__ __forceinline__ void advance_rows() {
    rows_ -= kRows;  // the walk down the rows has left source_ where the next tile starts
  }

 private:
  // `elements` is how many the matrix has from `source` on; 0 or less when it has none.
  __device__ __forceinline__ static void copy(uint32_t target, const T* source, int elements) {
    // Only the narrowest copies may straddle the end of a row: a partial copy costs instructions, and rows of an odd
    // length in a wider pitch are rare.
    if constexpr (kCopyBytes == 4 && kElements > 1) {
      ptx::cp_async_partial(target, source, max(0, min(elements, kElements)) * static_cast<int>(sizeof(T)));
    } else {
      ptx::cp_async_or_zero<kCopyBytes>(target, source, elements > 0);
    }
  }

  const T* source_;   // of the next piece to start
  int64_t row_step_;  // in elements, from a thread's piece to its next one below
  int rows_, cols_;   // what the matrix has from this thread's first piece on; negative when it is past the end
  int offset_;        // of this thread's first piece in the tile
  bool has_pieces_;
};

}  // namespace kiln::tile
