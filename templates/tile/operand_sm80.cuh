// One operand of a product by mma.sync: how its tiles lie in shared memory, how they get there, and how a warp reads
// fragments from them. A and B differ only in the order of the four 8-row blocks that make a fragment, so both are
// here.
#pragma once

#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/types.cuh"
#include "tile/copy_sm80.cuh"
#include "tile/swizzle_sm80.cuh"

namespace kiln::tile {

enum class Side { kA, kB };

// Extent is the operand's dimension that is not K: M for A, N for B. A tile holds kExtent × kK elements: rows of K when
// kKContiguous, else rows of the extent.
template <class T, Side kSide, bool kKContiguous, int kExtent, int kK, int kThreads, int kCopyBytes>
struct Operand {
  static constexpr int kRows = kKContiguous ? kExtent : kK;
  static constexpr int kCols = kKContiguous ? kK : kExtent;
  static constexpr int kRowBytes = kCols * static_cast<int>(sizeof(T));
  static constexpr int kTileBytes = kRows * kRowBytes;
  static constexpr int kStepK = 32 / static_cast<int>(sizeof(T));  // K of one mma: two chunks of 16 bytes
  static constexpr int kSteps = kK / kStepK;
  // ldmatrix transposes 16-bit elements only: wider ones whose rows run along the extent are read one by one.
  static constexpr bool kPlainLoads = !kKContiguous && sizeof(T) == 4;

  using Layout = Swizzle<kRowBytes, kPlainLoads ? 2 : 1>;
  using Copy = TileCopy<T, Layout, kRows, kCols, kThreads, kCopyBytes>;

  // Copies of the tiles that start at (extent, k) and follow along K up to `k_end`. `matrix` has `extent_size` on its
  // other dimension.
  __device__ static Copy copy(const T* matrix, int64_t stride, int64_t extent, int64_t k, int extent_size, int k_end) {
    const int extent_left = extent_size - static_cast<int>(extent);
    const int k_left = k_end - static_cast<int>(k);
    if constexpr (kKContiguous) {
      return Copy(matrix + extent * stride + k, stride, extent_left, k_left);
    } else {
      return Copy(matrix + k * stride + extent, stride, k_left, extent_left);
    }
  }

  __device__ __forceinline__ static void advance(Copy& copy) {
    if constexpr (kKContiguous) {
      copy.advance_cols();
    } else {
      copy.advance_rows();
    }
  }

  // Reads the fragments of a warp whose part of the extent starts at `origin`, a multiple of kWarpExtent.
  template <int kWarpExtent>
  class Reader {
   public:
    static constexpr int kBlocks = kWarpExtent / 16;
    // One register array per 16 of the extent: for A the fragment of an m16 mma, for B those of two n8 ones.
    using Fragments = uint32_t[kBlocks][4];

    __device__ explicit Reader(int origin) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      if constexpr (kPlainLoads) {
        const int element = origin + lane / 4;
        offset_ = Layout::offset(lane % 4, element / 4) + element % 4 * 4;
      } else {
        // Lanes 8·i … 8·i+7 address block i: the extent's half is bit 0 of i for A and bit 1 for B, K's half the other.
        const int extent_half = kSide == Side::kA ? lane / 8 % 2 : lane / 16;
        const int k_half = kSide == Side::kA ? lane / 16 : lane / 8 % 2;
        const int row = lane % 8 + 8 * (kKContiguous ? extent_half : k_half);
        offset_ = kKContiguous ? Layout::offset(origin + row, k_half)
                               : Layout::offset(row, origin * static_cast<int>(sizeof(T)) / 16 + extent_half);
      }
    }

    // NOTE: the XORs below stand for additions inside a swizzled row: `tile` must be aligned to kRowBytes.
    __device__ __forceinline__ void load(Fragments& fragments, uint32_t tile, int step) const {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        uint32_t(&registers)[4] = fragments[block];
        if constexpr (kPlainLoads) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int extent_half = kSide == Side::kA ? i % 2 : i / 2;
            const int k_half = kSide == Side::kA ? i / 2 : i % 2;
            const uint32_t column = (tile + offset_) ^ (block * 64 + extent_half * 32);
            registers[i] = ptx::ld_shared(column + (step * 8 + k_half * 4) * kRowBytes);
          }
        } else if constexpr (kKContiguous) {
          ptx::ldmatrix_x4(registers, ((tile + offset_) ^ (step * 32)) + block * 16 * kRowBytes);
        } else {
          ptx::ldmatrix_x4_trans(registers, ((tile + offset_) ^ (block * 32)) + step * 16 * kRowBytes);
        }
      }
    }

    // Makes loaded fragments fit for mma. Apart from load(), so that it need not wait for the loads just issued.
    __device__ __forceinline__ static void convert(Fragments& fragments) {
      if constexpr (is_same<T, tf32>) {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
          for (int i = 0; i < 4; ++i) fragments[block][i] = ptx::cvt_tf32(fragments[block][i]);
        }
      }
    }

   private:
    uint32_t offset_;  // of this lane's first row or element in a tile
  };
};

}  // namespace kiln::tile
