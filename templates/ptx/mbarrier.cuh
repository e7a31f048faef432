// Barriers in shared memory that count arrivals and the bytes of asynchronous copies (sm_90).
// A phase ends when all expected arrivals and bytes have come; who waits names the parity of the phase it awaits.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// mbarrier.init.shared::cta.b64
__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine and to the cluster. fence.mbarrier_init.release.cluster
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// mbarrier.arrive.shared::cta.b64
__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives and adds `bytes` to what the current phase awaits. mbarrier.arrive.expect_tx.shared::cta.b64
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives at the barrier that lies at the same place in the block of rank `cta`.
// NOTE: it releases the calling thread's ordinary writes to its own block only. Release to the whole cluster costs a
// fence of the GPU's memory at every call, and handing back a stage that wgmma has read needs none.
// mapa.shared::cluster, mbarrier.arrive.shared::cluster.b64
__device__ __forceinline__ void mbarrier_arrive_remote(uint32_t barrier, uint32_t cta) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(barrier),
      "r"(cta)
      : "memory");
}

// The same, and what the thread wrote before, or saw written, is visible to those in the cluster who await the phase.
// mapa.shared::cluster, mbarrier.arrive.release.cluster.shared::cluster.b64
__device__ __forceinline__ void mbarrier_arrive_remote_release(uint32_t barrier, uint32_t cta) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(barrier),
      "r"(cta)
      : "memory");
}

// True once the phase of that parity has ended; may sleep for a while before it answers no.
// mbarrier.try_wait.parity.shared::cta.b64
__device__ __forceinline__ bool mbarrier_try_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

// Waits for a phase to which the threads of other blocks arrive with release.
// mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64
__device__ __forceinline__ void mbarrier_wait_cluster(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

}  // namespace kiln::ptx
