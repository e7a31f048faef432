// Stores to global memory that stay one instruction. Left to itself the compiler takes a vector apart where its parts
// are not in neighbouring registers, and each part then costs the L2 cache a request of its own.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// To an address that is a multiple of 16 bytes. st.global.v4.b32
__device__ __forceinline__ void st_global_v4_b32(void* to, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

}  // namespace kiln::ptx
