// Kernels of the templates that the tuner's tests search over.
#pragma once

#include "ptx/types.cuh"

namespace kiln_test {

template <class C>
__global__ void toy_scale(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  const kiln::int64_t i = kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

// UNROLL elements for each thread.
template <class C>
__global__ void toy_unrolled(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  const kiln::int64_t first = (kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * C::UNROLL;
#pragma unroll
  for (int i = 0; i < C::UNROLL; ++i) {
    if (first + i < n) y[first + i] = 2 * x[first + i];
  }
}

}  // namespace kiln_test
