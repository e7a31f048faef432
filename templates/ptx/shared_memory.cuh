// Addresses of the shared state space, and the matrix stores that write it.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// The 32-bit address that shared-memory instructions take. cvta.to.shared
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// st.shared.b32
__device__ __forceinline__ void st_shared(uint32_t address, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}

// st.shared.v2.f32
__device__ __forceinline__ void st_shared(uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

}  // namespace kiln::ptx
