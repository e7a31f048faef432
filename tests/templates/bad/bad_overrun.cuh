#pragma once

#include "ptx/types.cuh"

namespace kiln_test {

// Right inside, but without a bounds check on the last block.
template <class C>
__global__ void bad_overrun(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  const kiln::int64_t i = kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  y[i] = i < n ? 2 * x[i] : 0.0f;
}

}  // namespace kiln_test
