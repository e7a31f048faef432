#pragma once

#include "ptx/types.cuh"

namespace kiln_test {

// Every block takes memory from the device's heap and keeps it. Once the heap is empty, elements stay unwritten: the
// first launches are right, the later ones are not.
extern "C" __device__ void* malloc(decltype(sizeof(0)) bytes);

template <class C>
__global__ void bad_leak(const typename C::x_t* x, typename C::x_t* y, kiln::int64_t n) {
  __shared__ typename C::x_t* staging;
  if (threadIdx.x == 0) staging = static_cast<typename C::x_t*>(malloc(blockDim.x * sizeof(typename C::x_t)));
  __syncthreads();
  const kiln::int64_t i = kiln::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (staging == nullptr || i >= n) return;
  staging[threadIdx.x] = x[i];
  y[i] = 2 * staging[threadIdx.x];
}

}  // namespace kiln_test
