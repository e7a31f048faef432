// Integer names, the 16-bit float types and the opaque tensor map, so that no template needs a toolkit header.
// bf16 and f16 are storage types: convert to float, compute, convert back. Source of the layouts: PTX ISA, "Fundamental
// Types".
#pragma once

namespace kiln {

// Inside the namespace, so that a translation unit that also sees the host's <cstdint> stays well-formed.
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};
// A 32-bit float whose products are taken in TF32; stored like float.
struct tf32 {
  float value;
};
using f32 = float;

// Same bytes as the driver's CUtensorMap. Passed as `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(tf32 x) { return x.value; }
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }
// cvt.f32.f16
__device__ __forceinline__ float to_float(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

// Rounds to nearest even; NaN stays NaN and an overflow becomes infinity, as IEEE 754 says.
template <class T>
__device__ __forceinline__ T from_float(float x);

template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ tf32 from_float<tf32>(float x) {
  return {x};
}
// cvt.rn.f16.f32
template <>
__device__ __forceinline__ f16 from_float<f16>(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
// cvt.rn.bf16.f32 needs sm_80; before it the rounding is done on the bits.
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
#if __CUDA_ARCH__ >= 800
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  const uint32_t u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
#endif
}

// Two floats packed as one 32-bit register, `lo` in the low half. cvt.rn.{bf16x2,f16x2}.f32 (sm_80)
template <class T>
__device__ __forceinline__ uint32_t pack(float lo, float hi) {
  static_assert(is_same<T, bf16> || is_same<T, f16>, "pack() makes a pair of 16-bit values");
#if __CUDA_ARCH__ >= 800
  uint32_t pair;
  if constexpr (is_same<T, bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  }
  return pair;
#else
  return static_cast<uint32_t>(from_float<T>(lo).bits) | (static_cast<uint32_t>(from_float<T>(hi).bits) << 16);
#endif
}

template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace kiln
