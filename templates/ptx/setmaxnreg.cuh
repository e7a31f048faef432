// Moves registers between the warpgroups of a block (sm_90a).
// NOTE: ptxas ignores both (warning C7508) unless the kernel has __launch_bounds__ with a minimum of one block.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// Gives registers back, down to `Count` a thread (a multiple of 8 from 24 to 256). setmaxnreg.dec.sync.aligned.u32
template <int Count>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

// Waits until the block has registers to spare and takes up to `Count` a thread. setmaxnreg.inc.sync.aligned.u32
template <int Count>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

}  // namespace kiln::ptx
