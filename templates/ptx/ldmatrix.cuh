// Loads of 8×8 matrices of 16-bit elements from shared memory into the fragments mma.sync reads.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// ldmatrix.sync.aligned.m8n8.x4.shared.b16: lane 8·i + r gives the address of row r (16 bytes) of matrix i;
// lane 4·r + c receives in registers[i] the 32 bits at row r, byte 4·c.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&registers)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared)
               : "memory");
}

// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16: as above, each matrix of 16-bit elements transposed on the way.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&registers)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared)
               : "memory");
}

// ld.shared.b32
__device__ __forceinline__ uint32_t ld_shared(uint32_t shared) {
  uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(shared) : "memory");
  return value;
}

}  // namespace kiln::ptx
