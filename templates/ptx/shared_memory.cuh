// Addresses of shared memory, a block's own and its cluster's, and plain loads and stores there.
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

// ld.shared.v4.f32
__device__ __forceinline__ float4 ld_shared(uint32_t address) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address)
               : "memory");
  return x;
}

// The cluster-wide address of the same place in the block of rank `cta`. mapa.shared::cluster.u32 (sm_90)
__device__ __forceinline__ uint32_t map_shared(uint32_t address, uint32_t cta) {
  uint32_t mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(cta));
  return mapped;
}

// st.shared::cluster.v4.f32 (sm_90)
__device__ __forceinline__ void st_shared_cluster(uint32_t address, float x, float y, float z, float w) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x), "f"(y), "f"(z), "f"(w)
               : "memory");
}

}  // namespace kiln::ptx
