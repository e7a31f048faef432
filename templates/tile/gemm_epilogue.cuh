// What becomes of a GEMM's products, as the choices of the op say: D = activation(alpha · product + beta · addend +
// bias), in fp32. A product is an element of alpha-less A · B; swiglu makes one element of D of two neighbours of a
// row. C is the baked struct. Everything that its choices leave out costs nothing.
#pragma once

#include "tile/activation.cuh"
#include "tile/vector.cuh"

namespace kiln::tile {

template <bool kFirst, class A, class B>
struct Choose {
  using Type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using Type = B;
};

template <class C>
struct EpilogueOf {
  using D = typename C::d_t;
  static constexpr bool kReadsC = !C::addend_is_d;
  using Addend = typename Choose<kReadsC, typename C::c_t, D>::Type;
  using Bias = typename C::c_t;
  using Activations = typename Choose<sizeof(D) == 4, ExactActivations, FastActivations>::Type;

  static constexpr bool kGates = C::activation_is_swiglu;
  static constexpr bool kAddsLast = C::addend_is_residual || kGates;  // the addend, after the activation
  static constexpr bool kBiasAlongN = C::bias_is_n;
  static constexpr bool kBiasAlongM = C::bias_is_m;
  static constexpr bool kHasBias = kBiasAlongN || kBiasAlongM;
  // Nothing but alpha and beta · addend.
  static constexpr bool kIsLinear = !kHasBias && C::activation_is_none;
  static constexpr int kStep = kGates ? 2 : 1;  // products of a row that make one element of D

  __device__ __forceinline__ static float activate(float x) {
    if constexpr (C::activation_is_relu) return relu(x);
    if constexpr (C::activation_is_gelu) return Activations::gelu(x);
    if constexpr (C::activation_is_gelu_tanh) return Activations::gelu_tanh(x);
    if constexpr (C::activation_is_silu) return Activations::silu(x);
    return x;
  }
  __device__ __forceinline__ static float gate(float g, float u) { return Activations::silu(g) * u; }
};

// NOTE: beta == 0 must not let through what the addend holds, NaN included.
__device__ __forceinline__ float add_scaled(float x, float beta, float addend) {
  return beta == 0.0f ? x : fmaf(beta, addend, x);
}

// One matrix of D, or a tile from its first element on, and what goes into it.
template <class C>
struct EpilogueTarget {
  using Of = EpilogueOf<C>;
  typename Of::D* d;
  const typename Of::Addend* addend;  // may be d
  const typename Of::Bias* bias;
  int64_t ldd, ld_addend;
  float alpha, beta;

  // The part from row m and column n of the products on.
  __device__ __forceinline__ EpilogueTarget at(int64_t m, int64_t n) const {
    EpilogueTarget part = *this;
    part.d += m * ldd + n / Of::kStep;
    part.addend += m * ld_addend + n / Of::kStep;
    if constexpr (Of::kBiasAlongN) part.bias += n;
    if constexpr (Of::kBiasAlongM) part.bias += m;
    return part;
  }

  // Finishes neighbouring products of row m from column n on. D and the addend are aligned to all that they make.
  template <int kWidth>
  __device__ __forceinline__ void store(int m, int n, const float (&products)[kWidth]) const {
    static_assert(kWidth % Of::kStep == 0, "a gate and its input are finished together");
    constexpr int kOut = kWidth / Of::kStep;
    using Addends = Vector<typename Of::Addend, kOut>;
    using Results = Vector<typename Of::D, kOut>;
    Addends addends = {};
    if (beta != 0.0f) addends = *reinterpret_cast<const Addends*>(addend + m * ld_addend + n / Of::kStep);

    float values[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      values[i] = alpha * products[i];
      if constexpr (!Of::kAddsLast) values[i] = add_scaled(values[i], beta, to_float(addends.at[i]));
      if constexpr (Of::kBiasAlongN) values[i] += to_float(bias[n + i]);
      if constexpr (Of::kBiasAlongM) values[i] += to_float(bias[m]);
      values[i] = Of::activate(values[i]);
    }
    Results results;
#pragma unroll
    for (int i = 0; i < kOut; ++i) {
      float value = values[i];
      if constexpr (Of::kGates) value = Of::gate(values[2 * i], values[2 * i + 1]);
      if constexpr (Of::kAddsLast) value = add_scaled(value, beta, to_float(addends.at[i]));
      results.at[i] = from_float<typename Of::D>(value);
    }
    *reinterpret_cast<Results*>(d + m * ldd + n / Of::kStep) = results;
  }
};

// Partial sums, stored as they are.
struct PartialTarget {
  float* to;
  int64_t ld;

  template <int kWidth>
  __device__ __forceinline__ void store(int m, int n, const float (&products)[kWidth]) const {
    Vector<float, kWidth> values;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values.at[i] = products[i];
    *reinterpret_cast<Vector<float, kWidth>*>(to + m * ld + n) = values;
  }
};

}  // namespace kiln::tile
