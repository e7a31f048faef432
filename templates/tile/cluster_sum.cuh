// Adds up what the blocks of a cluster hold of one tile, each the product over its own part of K, through distributed
// shared memory. Each block ends up with the sum for a share of the tile's rows: of every four warps of a warpgroup,
// 4 / Parts own theirs there, and the same warps of the other blocks send them what they have. Accumulators travel as
// they lie in registers. The order of addition is fixed, so the result does not vary from run to run.
#pragma once

#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"

namespace kiln::tile {

// The place where a block receives; `Warps` send accumulators to each, `Count` a thread.
template <int Parts, int Warps, int Count>
struct ClusterSumStorage {
  static_assert(Parts == 1 || Parts == 2 || Parts == 4, "the warps of a warpgroup are shared out evenly");
  static_assert(Count % 4 == 0, "accumulators travel in fours");
  static constexpr int kSenderBytes = Count * 4 * 32;  // of one warp
  static constexpr int kOwned = Warps / Parts;         // warps that a block sums for
  static constexpr int kBytes = kOwned * (Parts - 1) * kSenderBytes;
  static constexpr int kArrivals = kOwned * (Parts - 1);
};

// Sums `registers` over the cluster; true in the warps that own the result. `buffer` and `barrier` lie at the same
// place in every block; the barrier was initialised with kArrivals. Good for one tile: nothing guards the buffer's
// reuse.
template <int Parts, int Warps, int Count>
__device__ __forceinline__ bool cluster_sum(float (&registers)[Count], uint32_t buffer, uint32_t barrier, uint32_t rank,
                                            uint32_t warp) {
  using Storage = ClusterSumStorage<Parts, Warps, Count>;
  constexpr uint32_t kShare = 4 / Parts;  // warps of a warpgroup that one block owns
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t owner = warp % 4 / kShare;
  const uint32_t slot = warp / 4 * kShare + warp % kShare;
  const uint32_t mine = buffer + slot * (Parts - 1) * Storage::kSenderBytes + lane * 16;

  if (owner != rank) {
    const uint32_t sender = rank < owner ? rank : rank - 1;
    const uint32_t to = ptx::map_shared(mine + sender * Storage::kSenderBytes, owner);
#pragma unroll
    for (int i = 0; i < Count; i += 4) {
      ptx::st_shared_cluster(to + i * 128, registers[i], registers[i + 1], registers[i + 2], registers[i + 3]);
    }
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive_remote_release(barrier, owner);
    return false;
  }
  ptx::mbarrier_wait_cluster(barrier, 0);
#pragma unroll
  for (int sender = 0; sender < Parts - 1; ++sender) {
#pragma unroll
    for (int i = 0; i < Count; i += 4) {
      const float4 part = ptx::ld_shared(mine + sender * Storage::kSenderBytes + i * 128);
      registers[i] += part.x;
      registers[i + 1] += part.y;
      registers[i + 2] += part.z;
      registers[i + 3] += part.w;
    }
  }
  return true;
}

}  // namespace kiln::tile
