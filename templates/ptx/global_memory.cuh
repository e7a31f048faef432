// Loads from global memory that take place only where `index` < `count`, and else give 0. They compile to no branch,
// and so to little code where many stand together.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// @p ld.global.b16
__device__ __forceinline__ uint16_t ld_global_b16_if(const void* from, int32_t index, int32_t count) {
  uint16_t x;
  asm volatile("{ .reg .pred p; setp.lt.s32 p, %2, %3; mov.b16 %0, 0; @p ld.global.b16 %0, [%1]; }"
               : "=h"(x)
               : "l"(from), "r"(index), "r"(count));
  return x;
}

// @p ld.global.b32
__device__ __forceinline__ uint32_t ld_global_b32_if(const void* from, int32_t index, int32_t count) {
  uint32_t x;
  asm volatile("{ .reg .pred p; setp.lt.s32 p, %2, %3; mov.b32 %0, 0; @p ld.global.b32 %0, [%1]; }"
               : "=r"(x)
               : "l"(from), "r"(index), "r"(count));
  return x;
}

// @p ld.global.v2.b32
__device__ __forceinline__ uint2 ld_global_v2_b32_if(const void* from, int32_t index, int32_t count) {
  uint2 x;
  asm volatile(
      "{ .reg .pred p; setp.lt.s32 p, %3, %4; mov.b32 %0, 0; mov.b32 %1, 0; @p ld.global.v2.b32 {%0, %1}, [%2]; }"
      : "=r"(x.x), "=r"(x.y)
      : "l"(from), "r"(index), "r"(count));
  return x;
}

}  // namespace kiln::ptx
