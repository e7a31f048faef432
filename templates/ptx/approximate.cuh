// Approximations of the special function unit, good to about 22 bits; subnormals count as 0.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// 2^x. ex2.approx.ftz.f32
__device__ __forceinline__ float ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1/x. rcp.approx.ftz.f32
__device__ __forceinline__ float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace kiln::ptx
