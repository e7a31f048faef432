#pragma once

#include "ptx/types.cuh"

namespace kiln_test {

// Writes to an address that nobody owns, which poisons the context.
template <class C>
__global__ void bad_crash(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  const kiln::int64_t i = kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
  if (i == 0) *reinterpret_cast<volatile float*>(kiln::uint64_t{16}) = 1.0f;
}

}  // namespace kiln_test
