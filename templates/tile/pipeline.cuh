// A ring of shared-memory stages between a producer, which fills them by TMA, and consumers, which hand them back.
// Each stage has a barrier `full`, which ends a phase when the stage's bytes have come, and a barrier `empty`, which
// ends one when every consumer has released it. Producer and consumers walk the ring on their own, each with a
// PipelineState.
#pragma once

#include "ptx/mbarrier.cuh"

namespace kiln::tile {

// Where a thread stands in the ring, and the parity of the phase it awaits there.
template <int Stages>
struct PipelineState {
  uint32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == Stages) {
      stage = 0;
      parity ^= 1;
    }
  }

  // Over `count` stages that another thread handles.
  __device__ __forceinline__ void skip(uint32_t count) {
    stage += count;
    parity ^= (stage / Stages) & 1;
    stage %= Stages;
  }
};

// The barriers of the ring; `address` is the shared address of 2 · Stages · 8 bytes.
template <int Stages>
struct PipelineBarriers {
  static constexpr int kBytes = 2 * Stages * 8;
  uint32_t address;

  __device__ __forceinline__ uint32_t full(uint32_t stage) const { return address + stage * 8; }
  __device__ __forceinline__ uint32_t empty(uint32_t stage) const { return address + (Stages + stage) * 8; }

  // By one thread; the block, or the cluster where its copies are multicast, synchronises afterwards.
  __device__ __forceinline__ void initialize(uint32_t releases) const {
#pragma unroll
    for (int i = 0; i < Stages; ++i) {
      ptx::mbarrier_init(full(i), 1);
      ptx::mbarrier_init(empty(i), releases);
    }
    ptx::fence_mbarrier_init();
  }

  // The ring starts empty, so the first pass awaits the phase before the first, which counts as ended.
  __device__ __forceinline__ void wait_empty(PipelineState<Stages> at) const {
    ptx::mbarrier_wait(empty(at.stage), at.parity ^ 1);
  }
  __device__ __forceinline__ void wait_full(PipelineState<Stages> at) const {
    ptx::mbarrier_wait(full(at.stage), at.parity);
  }
};

}  // namespace kiln::tile
