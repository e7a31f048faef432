// Descriptors of wgmma operands in shared memory, as TMA lays them with the 128-byte swizzle.
// An operand is a slab: `extent` along M or N, which is what the descriptor covers, and 128 bytes along K, which are 64
// elements of 16 bits or 32 of TF32.
// K contiguous:      extent rows of 128 bytes; eight rows make one 1024-byte pattern.
// extent contiguous: extent / 64 boxes, each of 64 K rows of 64 elements; eight K rows make one pattern. 16 bits only.
// Either way a slab has 128 bytes for each row of its extent, and rows 64 · i on start at byte 8192 · i.
#pragma once

#include "ptx/types.cuh"

namespace kiln::tile {

inline constexpr int kSlabRowBytes = 128;  // bytes of a slab for each element of its extent
template <class T>
inline constexpr int kSlabK = kSlabRowBytes / static_cast<int>(sizeof(T));  // K elements of a slab: one swizzled row
inline constexpr int kSlabSteps = kSlabRowBytes / 32;                       // products that a slab is good for
inline constexpr int kSlabBoxBytes = 64 * 128;

// `address` is a multiple of 1024. BoxBytes is from box to box along an extent that is contiguous, where a slab's boxes
// have another number of K rows than 64. Source of the fields: PTX ISA, "Matrix Descriptor Format".
template <bool KContiguous, int BoxBytes = kSlabBoxBytes>
__device__ __forceinline__ uint64_t operand_descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle128 = 1ull << 62;
  constexpr uint64_t kStrideBytes = 1024;                          // from one pattern to the next
  constexpr uint64_t kLeadingBytes = KContiguous ? 16 : BoxBytes;  // unused where K is contiguous
  return kSwizzle128 | (kStrideBytes >> 4) << 32 | (kLeadingBytes >> 4) << 16 | (address & 0x3ffff) >> 4;
}

// What to add to a descriptor to move by bytes.
__device__ __forceinline__ constexpr uint64_t descriptor_offset(uint32_t bytes) { return bytes >> 4; }

// What to add to a descriptor to reach the K elements of its slab's k-th product: 16 of 16 bits, or 8 of TF32.
template <bool KContiguous>
__device__ __forceinline__ constexpr uint64_t descriptor_k_step(int k) {
  return descriptor_offset(k * (KContiguous ? 32 : 2048));
}

}  // namespace kiln::tile
