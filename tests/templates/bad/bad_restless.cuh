#pragma once

#include "ptx/types.cuh"

namespace kiln_test {

// Right within any tolerance, but its last bits come from the clock, as those of a sum do whose order is left to
// chance.
template <class C>
__global__ void bad_restless(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  const kiln::int64_t i = kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const float noise = 1.0f + static_cast<float>(clock64() % 8) * 1.2e-7f;
  if (i < n) y[i] = 2.0f * x[i] * noise;
}

}  // namespace kiln_test
