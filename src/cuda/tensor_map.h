// Building the descriptors that the tensor memory accelerator reads. Thread-safe.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>

#include "kiln/dtype.h"

namespace kiln::cuda {

struct TensorMapSpec {
  DType dtype = DType::bf16;
  std::span<const std::uint64_t> dims;           // innermost first, elements, each ≥ 1
  std::span<const std::uint64_t> strides_bytes;  // of all but the innermost; multiples of 16
  std::span<const std::uint32_t> box;            // elements, each 1 … 256
  int swizzle_bytes = 0;                         // 0, 32, 64 or 128
  int l2_promotion_bytes = 0;                    // 0, 64, 128 or 256
};

// Throws Error{invalid_argument} naming the field, the value met and what the hardware allows. Needs no driver.
void check_tensor_map(const TensorMapSpec& spec);
// Throws likewise. `address` must be 16-byte aligned; it may be replaced later by replace_address.
void encode_tensor_map(CUtensorMap* map, const TensorMapSpec& spec, CUdeviceptr address);
void replace_address(CUtensorMap* map, CUdeviceptr address);

}  // namespace kiln::cuda
