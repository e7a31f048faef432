#pragma once

#include "ptx/types.cuh"

namespace kiln_test {

// Uses a name that does not exist.
template <class C>
__global__ void bad_compile(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  const kiln::int64_t i = kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = twice(x[i]) + typename C::no_such_type{};
}

}  // namespace kiln_test
