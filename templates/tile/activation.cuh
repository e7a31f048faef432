// Activations of an fp32 value: by the math library, or fast, with an error below a quarter of what rounding the result
// to f16 costs. NaN stays NaN. Source of GELU and of its approximation by tanh: Hendrycks and Gimpel, arXiv 1606.08415.
#pragma once

#include "ptx/math.cuh"
#include "ptx/types.cuh"

namespace kiln::tile {

__device__ __forceinline__ float relu(float x) { return ptx::max_nan(x, 0.0f); }

struct ExactActivations {
  __device__ __forceinline__ static float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
  __device__ __forceinline__ static float gelu_tanh(float x) {
    return 0.5f * x * (1.0f + tanhf(0.79788456f * fmaf(0.044715f * x * x, x, x)));
  }
  __device__ __forceinline__ static float silu(float x) { return x / (1.0f + expf(-x)); }
};

struct FastActivations {
  // log2 Φ(-t) for t in [0, 5.5], fitted to a relative error of 1.1e-4 of t · Φ(-t), absolute where that is below 1e-4
  __device__ __forceinline__ static float gelu(float x) {
    constexpr float kLog2Tail[] = {-1.00010836f,   -1.14935648f,   -0.463727057f,
                                   -0.0485300943f, 5.91452559e-3f, -3.29478178e-4f};
    return relu_minus_tail(x, kLog2Tail);
  }
  // The same of (1 - tanh u(t)) / 2, to 1.4e-4
  __device__ __forceinline__ static float gelu_tanh(float x) {
    constexpr float kLog2Tail[] = {-1.00013888f,  -1.15005541f,    -0.45811382f,  -0.0599875003f,
                                   0.0183735844f, -5.25155151e-3f, 4.01836296e-4f};
    return relu_minus_tail(x, kLog2Tail);
  }
  __device__ __forceinline__ static float silu(float x) {
    return x * ptx::rcp_approx(1.0f + ptx::ex2_approx(x * -1.44269504f));
  }

 private:
  // A gate Φ with Φ(-t) = 1 - Φ(t) gives x · Φ(x) = relu(x) - |x| · Φ(-|x|), whose second term is small and smooth: one
  // exponential of a polynomial, precise in the tail too. Beyond 5.5 the tail is below 1e-7.
  template <int kCount>
  __device__ __forceinline__ static float relu_minus_tail(float x, const float (&log2_tail)[kCount]) {
    const float t = fminf(fabsf(x), 5.5f);
    float exponent = log2_tail[kCount - 1];
#pragma unroll
    for (int i = kCount - 2; i >= 0; --i) exponent = fmaf(exponent, t, log2_tail[i]);
    return fmaf(-t, ptx::ex2_approx(exponent), relu(x));
  }
};

}  // namespace kiln::tile
