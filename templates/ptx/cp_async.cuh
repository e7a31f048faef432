// Asynchronous copies from global to shared memory that bypass registers (sm_80). Shared addresses are 32-bit, in the
// shared window. Bytes past `source_bytes` are filled with zeros; when it is 0, global memory is not touched.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// cp.async.{ca,cg}.shared.global.L2::128B, of 4, 8 or 16 bytes; both addresses aligned to that size.
// Only the 16-byte form can bypass L1.
template <int kBytes>
__device__ __forceinline__ void cp_async(uint32_t shared, const void* global, int source_bytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"(shared), "l"(global), "r"(source_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2, %3;"
                 :
                 : "r"(shared), "l"(global), "n"(kBytes), "r"(source_bytes)
                 : "memory");
  }
}

// cp.async.commit_group: closes the group of this thread's copies since the last one; the group may be empty.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }

// cp.async.wait_group: returns once at most kPending of this thread's newest groups are still in flight.
// NOTE: other threads' copies become visible only after a barrier that follows their own wait.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory");
}

}  // namespace kiln::ptx
