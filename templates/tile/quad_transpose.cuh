// Four neighbouring threads hold an accumulator's rows two columns each. After the transposition of four such registers
// each thread has eight columns in a row, which are 16 bytes of 16-bit values.
#pragma once

#include "ptx/types.cuh"

namespace kiln::tile {

// Register r of thread l of a quad becomes register l of thread r. By all threads of a warp.
__device__ __forceinline__ void quad_transpose(uint32_t (&registers)[4]) {
  const bool odd = (threadIdx.x & 1) != 0;
  const bool upper = (threadIdx.x & 2) != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(0xffffffff, odd ? registers[i] : registers[i + 1], 1);
    registers[i] = odd ? got : registers[i];
    registers[i + 1] = odd ? registers[i + 1] : got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(0xffffffff, upper ? registers[i] : registers[i + 2], 2);
    registers[i] = upper ? got : registers[i];
    registers[i + 2] = upper ? registers[i + 2] : got;
  }
}

}  // namespace kiln::tile
