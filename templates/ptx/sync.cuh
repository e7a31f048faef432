// Synchronisation within a warp, a block, a cluster and between grids, and the proxy fence (sm_90).
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// True in one lane of the converged warp. elect.sync
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
}

// Waits for `threads` threads at barrier `id`. Barrier 0 is the whole block's. barrier.sync
__device__ __forceinline__ void named_barrier_sync(uint32_t id, uint32_t threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts the thread at barrier `id` and goes on. barrier.arrive
__device__ __forceinline__ void named_barrier_arrive(uint32_t id, uint32_t threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Orders the thread's ordinary shared-memory accesses before later ones of wgmma and the copy engine.
// fence.proxy.async.shared::cta
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// %cluster_ctarank
__device__ __forceinline__ uint32_t cluster_cta_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Tells the cluster that the thread is here; the threads of a warp need not have converged. Orders no memory: release
// would wait for the thread's writes to be visible to the whole GPU. barrier.cluster.arrive.relaxed
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

// Waits until every thread of the cluster has arrived. barrier.cluster.wait.acquire
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Waits until the grids this one was launched to overlap with are complete and their writes visible; returns at once
// without programmatic dependent launch. griddepcontrol.wait
__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets a grid that depends on this one start once every block has said so or ended. griddepcontrol.launch_dependents
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace kiln::ptx
