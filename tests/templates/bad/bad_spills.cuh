#pragma once

#include "ptx/types.cuh"

namespace kiln_test {

// Keeps 64 values alive in at most 32 registers per thread.
template <class C>
__global__ void __launch_bounds__(1024, 2) bad_spills(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  const kiln::int64_t i = kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float kept[64];
#pragma unroll
  for (int k = 0; k < 64; ++k) kept[k] = x[(i + k) % n];
  // Each value depends on all before it, and all are needed twice.
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 64; ++k) sum = sum * 0.5f + kept[k];
#pragma unroll
  for (int k = 0; k < 64; ++k) sum += kept[63 - k] * (sum > static_cast<float>(k) ? 1e-30f : 0.0f);
  y[i] = 2 * x[i] + (sum > 1e30f ? 1.0f : 0.0f);
}

}  // namespace kiln_test
