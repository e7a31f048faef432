// A bulk tensor copy to several blocks of a cluster (sm_90). See ptx/tma.cuh.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// Loads the box at (x, y, z, w) into every block of the cluster whose bit is set in `ctas`, at the same place in each
// one's shared memory; each one's own barrier counts the bytes.
// cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
__device__ __forceinline__ void tma_load_multicast(uint32_t destination, const TensorMap& map, uint32_t barrier,
                                                   int32_t x, int32_t y, int32_t z, int32_t w, uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(destination),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "h"(ctas)
      : "memory");
}

}  // namespace kiln::ptx
