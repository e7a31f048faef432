// Asynchronous copies from global to shared memory that bypass registers (sm_80). Shared addresses are 32-bit, in the
// shared window.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// cp.async.{ca,cg}.shared.global.L2::128B, of 4, 8 or 16 bytes; both addresses aligned to that size. Only the 16-byte
// form can bypass L1. With `inside` false, shared memory is filled with zeros and global memory is not touched.
template <int kBytes>
__device__ __forceinline__ void cp_async_or_zero(uint32_t shared, const void* global, bool inside) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if constexpr (kBytes == 16) {
    asm volatile(
        "{\n"
        ".reg .pred outside;\n"
        "setp.eq.u32 outside, %2, 0;\n"
        "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, outside;\n"
        "}"
        :
        : "r"(shared), "l"(global), "r"(static_cast<uint32_t>(inside))
        : "memory");
  } else {
    asm volatile(
        "{\n"
        ".reg .pred outside;\n"
        "setp.eq.u32 outside, %3, 0;\n"
        "cp.async.ca.shared.global.L2::128B [%0], [%1], %2, outside;\n"
        "}"
        :
        : "r"(shared), "l"(global), "n"(kBytes), "r"(static_cast<uint32_t>(inside))
        : "memory");
  }
}

// cp.async.ca.shared.global.L2::128B of 4 bytes, of which only the first `source_bytes` are read and the rest are
// zeros.
__device__ __forceinline__ void cp_async_partial(uint32_t shared, const void* global, int source_bytes) {
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4, %2;"
               :
               : "r"(shared), "l"(global), "r"(source_bytes)
               : "memory");
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
