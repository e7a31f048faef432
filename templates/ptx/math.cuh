// Arithmetic that C++ has no word for. Approximations are those of the special function unit, good to about 22 bits;
// subnormals count as 0 there.
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

// The larger, and NaN where either is. max.NaN.f32 needs sm_80.
__device__ __forceinline__ float max_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
#else
  return x < y ? y : x;
#endif
}

}  // namespace kiln::ptx
