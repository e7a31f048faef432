// Bulk tensor copies between global and shared memory, described by a tensor map (sm_90).
// One thread issues a copy of a whole box. Shared addresses must be 128-byte aligned, and aligned to the swizzle's
// pattern (1024 bytes for 128B). A load reads zero outside the tensor; a store writes nothing there.
// NOTE: a store writes whole units of 16 bytes: where the innermost dimension ends within one, it writes past the end.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// prefetch.tensormap
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(&map)) : "memory");
}

// An L2 policy for data that is read once. createpolicy.fractional.L2::evict_first.b64
__device__ __forceinline__ uint64_t policy_evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// An L2 policy for data that others read again soon. createpolicy.fractional.L2::evict_last.b64
__device__ __forceinline__ uint64_t policy_evict_last() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// The L2 policy that an access without a hint has. createpolicy.fractional.L2::evict_normal.b64
__device__ __forceinline__ uint64_t policy_evict_normal() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Loads the box at (x, y, z) and completes its bytes on `barrier`.
// cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint
__device__ __forceinline__ void tma_load(uint32_t destination, const TensorMap& map, uint32_t barrier, int32_t x,
                                         int32_t y, int32_t z, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(policy)
      : "memory");
}

// Loads the box at (x, y, z, w) and completes its bytes on `barrier`.
// cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes
__device__ __forceinline__ void tma_load(uint32_t destination, const TensorMap& map, uint32_t barrier, int32_t x,
                                         int32_t y, int32_t z, int32_t w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(destination),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// The same to every block of the cluster whose bit is set in `ctas`, at the same place in each one's shared memory;
// each one's own barrier counts the bytes.
// cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint
__device__ __forceinline__ void tma_load_multicast(uint32_t destination, const TensorMap& map, uint32_t barrier,
                                                   int32_t x, int32_t y, int32_t z, uint16_t ctas, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(destination),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(ctas), "l"(policy)
      : "memory");
}

// Brings the box at (x, y, z) into L2. Nothing is read into the block, so it may run ahead of what writes the tensor.
// cp.async.bulk.prefetch.tensor.3d.L2.global
__device__ __forceinline__ void tma_prefetch(const TensorMap& map, int32_t x, int32_t y, int32_t z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(reinterpret_cast<uint64_t>(&map)),
               "r"(x), "r"(y), "r"(z)
               : "memory");
}

// Stores the box at (x, y, z). cp.async.bulk.tensor.3d.global.shared::cta.bulk_group
__device__ __forceinline__ void tma_store(const TensorMap& map, uint32_t source, int32_t x, int32_t y, int32_t z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
                   reinterpret_cast<uint64_t>(&map)),
               "r"(source), "r"(x), "r"(y), "r"(z)
               : "memory");
}

// Closes the calling thread's group of bulk stores. cp.async.bulk.commit_group
__device__ __forceinline__ void bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most `Pending` of the calling thread's groups still read shared memory. cp.async.bulk.wait_group.read
template <int Pending>
__device__ __forceinline__ void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// Until at most `Pending` of the calling thread's groups are not yet written to memory. cp.async.bulk.wait_group
template <int Pending>
__device__ __forceinline__ void bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace kiln::ptx
