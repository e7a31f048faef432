#pragma once

#include "ptx/types.cuh"

namespace kiln_test {

// Off by one.
template <class C>
__global__ void bad_unwritten(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  const kiln::int64_t i = kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n - 1) y[i] = 2 * x[i];
}

}  // namespace kiln_test
