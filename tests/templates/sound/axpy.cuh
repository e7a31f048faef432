// y = alpha · x + y: the smallest kernel that a manifest can be about.
#pragma once

#include "ptx/types.cuh"

namespace kiln {

template <class C>
__global__ void __launch_bounds__(C::THREADS)
    axpy(const typename C::x_t* x, typename C::x_t* y, long long n, float alpha) {
  const long long i = blockIdx.x * static_cast<long long>(C::THREADS) + threadIdx.x;
  if (i < n) y[i] = fmaf(alpha, x[i], y[i]);
}

template <class C>
__global__ void axpy_reference(const typename C::x_t* x, typename C::x_t* y, long long n, float alpha) {
  const long long i = blockIdx.x * 32LL + threadIdx.x;
  if (i < n) y[i] = fmaf(alpha, x[i], y[i]);
}

}  // namespace kiln
