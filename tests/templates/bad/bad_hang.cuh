#pragma once

#include "ptx/types.cuh"

namespace kiln_test {

// Waits for a value that no input has. Reads through a volatile pointer, so that the loop is not optimised away.
template <class C>
__global__ void bad_hang(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  const volatile typename C::x_t* waits = x;
  while (*waits < 1e30f) {
  }
  const kiln::int64_t i = kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

}  // namespace kiln_test
