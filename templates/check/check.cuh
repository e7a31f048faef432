// Kernels of the measuring worker, for any op and dtype: fill inputs, poison outputs, compare results. All of them
// stride over their grid, so any one-dimensional grid will do; blocks are whole warps, at most 1024 threads.
//
// A poisoned output holds one NaN (of an integer type: one value) that no kernel computes: hardware makes other NaNs.
// So after a run the comparison knows what was never written, and what was written that should not have been.
#pragma once

#include "ptx/types.cuh"

namespace kiln {
namespace check {

// ---- Dtypes ----

// `kPoison`: quiet NaNs, since a signalling one may be quietened, and so changed, on its way through a register.
template <class T>
struct Dtype;
template <>
struct Dtype<f32> {
  using Bits = uint32_t;
  static constexpr Bits kPoison = 0x7fedbeef;
  static constexpr bool kIsFloat = true;
};
template <>
struct Dtype<tf32> : Dtype<f32> {};
template <>
struct Dtype<bf16> {
  using Bits = uint16_t;
  static constexpr Bits kPoison = 0x7fed;
  static constexpr bool kIsFloat = true;
};
template <>
struct Dtype<f16> {
  using Bits = uint16_t;
  static constexpr Bits kPoison = 0x7eed;
  static constexpr bool kIsFloat = true;
};
template <>
struct Dtype<int8_t> {
  using Bits = uint8_t;
  static constexpr Bits kPoison = 0xa5;
  static constexpr bool kIsFloat = false;
};
template <>
struct Dtype<uint8_t> : Dtype<int8_t> {};
template <>
struct Dtype<int32_t> {
  using Bits = uint32_t;
  static constexpr Bits kPoison = 0xa5a5a5a5;
  static constexpr bool kIsFloat = false;
};

template <class T>
__device__ __forceinline__ typename Dtype<T>::Bits bits_of(const T& x) {
  return __builtin_bit_cast(typename Dtype<T>::Bits, x);
}

template <class T>
__device__ __forceinline__ T from_bits(typename Dtype<T>::Bits bits) {
  return __builtin_bit_cast(T, bits);
}

template <class T>
__device__ __forceinline__ bool is_poison(const T& x) {
  return bits_of(x) == Dtype<T>::kPoison;
}

// Exact for every dtype.
template <class T>
__device__ __forceinline__ double to_double(const T& x) {
  if constexpr (Dtype<T>::kIsFloat) {
    return to_float(x);
  } else {
    return x;
  }
}

// Rounds to nearest; integers saturate.
template <class T>
__device__ __forceinline__ T from_double(double x) {
  if constexpr (Dtype<T>::kIsFloat) {
    return from_float<T>(static_cast<float>(x));
  } else {
    constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
    constexpr double kSpan = static_cast<double>(1ull << (8 * sizeof(T) - (kSigned ? 1 : 0)));
    return static_cast<T>(rint(fmin(fmax(x, kSigned ? -kSpan : 0.0), kSpan - 1.0)));
  }
}

__device__ __forceinline__ bool is_nan(double x) { return x != x; }
__device__ __forceinline__ bool is_infinite(double x) { return fabs(x) > 1.7976931348623157e308; }

__device__ __forceinline__ int64_t first_element() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int64_t element_step() { return int64_t{gridDim.x} * blockDim.x; }

// ---- Fills: element i depends on the seed and i alone, whatever the grid ----

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014) over a Weyl sequence: 64 well mixed bits for each counter.
__device__ __forceinline__ uint64_t random_bits(uint64_t seed, int64_t i) {
  uint64_t z = (seed + static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// In (0, 1], a multiple of 2^-24.
__device__ __forceinline__ float unit(uint32_t bits) { return static_cast<float>((bits >> 8) + 1) * 0x1p-24f; }

// Mean 0, deviation 1, by Box and Muller; at most 5.8 away from 0. Integers get evenly spread bits in every fill:
// quantised data uses its whole range.
template <class T>
__global__ void fill_normal(T* p, int64_t n, uint64_t seed) {
  for (int64_t i = first_element(); i < n; i += element_step()) {
    const uint64_t bits = random_bits(seed, i);
    if constexpr (Dtype<T>::kIsFloat) {
      const float radius = sqrtf(-2.0f * __logf(unit(static_cast<uint32_t>(bits))));
      const float angle = 6.2831853f * unit(static_cast<uint32_t>(bits >> 32));
      p[i] = from_float<T>(radius * __cosf(angle));
    } else {
      p[i] = from_bits<T>(static_cast<typename Dtype<T>::Bits>(bits));
    }
  }
}

// Evenly spread over (-1, 1].
template <class T>
__global__ void fill_uniform(T* p, int64_t n, uint64_t seed) {
  for (int64_t i = first_element(); i < n; i += element_step()) {
    const uint64_t bits = random_bits(seed, i);
    if constexpr (Dtype<T>::kIsFloat) {
      p[i] = from_float<T>(2.0f * unit(static_cast<uint32_t>(bits)) - 1.0f);
    } else {
      p[i] = from_bits<T>(static_cast<typename Dtype<T>::Bits>(bits));
    }
  }
}

// Evenly spread over (0, 1]; integers from 0 up.
template <class T>
__global__ void fill_positive(T* p, int64_t n, uint64_t seed) {
  for (int64_t i = first_element(); i < n; i += element_step()) {
    const uint64_t bits = random_bits(seed, i);
    if constexpr (Dtype<T>::kIsFloat) {
      p[i] = from_float<T>(unit(static_cast<uint32_t>(bits)));
    } else {
      constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
      p[i] = from_bits<T>(static_cast<typename Dtype<T>::Bits>(bits) >> (kSigned ? 1 : 0));
    }
  }
}

template <class T>
__global__ void poison(T* p, int64_t n) {
  for (int64_t i = first_element(); i < n; i += element_step()) p[i] = from_bits<T>(Dtype<T>::kPoison);
}

// Poison stays poison, so that a converted copy of an output still tells what was written.
template <class From, class To>
__global__ void convert(const From* from, To* to, int64_t n) {
  for (int64_t i = first_element(); i < n; i += element_step()) {
    const From x = from[i];
    if constexpr (is_same<From, To>) {
      to[i] = x;
    } else {
      to[i] = is_poison(x) ? from_bits<To>(Dtype<To>::kPoison) : from_double<To>(to_double(x));
    }
  }
}

// ---- Comparison ----

// The host zeroes it before the kernel. The sums take in the elements that are finite on both sides; their order varies
// from run to run, which shows in the last digits only.
struct Result {
  double sum_sq_diff;
  double sum_sq_ref;
  unsigned long long wrong_poison;     // poison in the reference alone: written outside the output
  unsigned long long unwritten;        // poison in the output alone
  unsigned long long nan_mismatch;     // NaN on one side alone, or an infinity that the other side does not share
  unsigned long long first_bad_index;  // 1 + the lowest index counted above; 0 if there is none
};

enum class Verdict { kNumbers, kSame, kWrongPoison, kUnwritten, kNanMismatch };

template <class Ref, class Out>
__device__ __forceinline__ Verdict judge(const Ref& ref, const Out& out) {
  const double r = to_double(ref);
  const double o = to_double(out);
  const bool ref_poison = is_poison(ref);
  const bool out_poison = is_poison(out);
  if (ref_poison && out_poison) return Verdict::kSame;
  // NOTE: an integer's poison is also a value that a kernel may compute; equal values are never a fault.
  if (ref_poison && r != o) return Verdict::kWrongPoison;
  if (out_poison && r != o) return Verdict::kUnwritten;
  if (is_nan(r) || is_nan(o)) return is_nan(r) && is_nan(o) ? Verdict::kSame : Verdict::kNanMismatch;
  if (is_infinite(r) || is_infinite(o)) {
    // A reference in higher precision may be finite where the output's dtype overflows.
    const double rounded = to_double(from_double<Out>(r));
    return r == o || rounded == o ? Verdict::kSame : Verdict::kNanMismatch;
  }
  return Verdict::kNumbers;
}

template <class T>
__device__ __forceinline__ T warp_sum(T x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_down_sync(0xffffffffu, x, lanes);
  return x;
}

__device__ __forceinline__ void lower_first_bad(unsigned long long* first, unsigned long long candidate) {
  unsigned long long seen = *first;
  while (seen == 0 || candidate < seen) {
    const unsigned long long before = atomicCAS(first, seen, candidate);
    if (before == seen) return;
    seen = before;
  }
}

template <class Ref, class Out>
__global__ void compare(const Ref* ref, const Out* out, int64_t n, Result* result) {
  double diff = 0.0;
  double magnitude = 0.0;
  unsigned long long wrong_poison = 0;
  unsigned long long unwritten = 0;
  unsigned long long nan_mismatch = 0;
  for (int64_t i = first_element(); i < n; i += element_step()) {
    const Verdict verdict = judge(ref[i], out[i]);
    if (verdict == Verdict::kNumbers) {
      const double r = to_double(ref[i]);
      const double d = r - to_double(out[i]);
      diff += d * d;
      magnitude += r * r;
    } else if (verdict != Verdict::kSame) {
      // A thread's indices rise, so its first fault is its lowest.
      if (wrong_poison + unwritten + nan_mismatch == 0) lower_first_bad(&result->first_bad_index, i + 1);
      wrong_poison += verdict == Verdict::kWrongPoison;
      unwritten += verdict == Verdict::kUnwritten;
      nan_mismatch += verdict == Verdict::kNanMismatch;
    }
  }

  __shared__ double sums[2][32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const double warp_diff = warp_sum(diff);
  const double warp_magnitude = warp_sum(magnitude);
  if (lane == 0) {
    sums[0][warp] = warp_diff;
    sums[1][warp] = warp_magnitude;
  }
  __syncthreads();
  if (warp == 0) {
    const double block_diff = warp_sum(lane < warps ? sums[0][lane] : 0.0);
    const double block_magnitude = warp_sum(lane < warps ? sums[1][lane] : 0.0);
    if (lane == 0) {
      atomicAdd(&result->sum_sq_diff, block_diff);
      atomicAdd(&result->sum_sq_ref, block_magnitude);
    }
  }
  // Faults are rare: their counts go straight to memory.
  if (wrong_poison != 0) atomicAdd(&result->wrong_poison, wrong_poison);
  if (unwritten != 0) atomicAdd(&result->unwritten, unwritten);
  if (nan_mismatch != 0) atomicAdd(&result->nan_mismatch, nan_mismatch);
}

}  // namespace check
}  // namespace kiln
