#pragma once

#include "ptx/types.cuh"

namespace kiln_test {

// The result is right; the input is not what it was.
template <class C>
__global__ void bad_input(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  const kiln::int64_t i = kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = 2 * x[i];
  const_cast<typename C::x_t*>(x)[i] = 0.0f;
}

}  // namespace kiln_test
