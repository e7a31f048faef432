// Warp-wide matrix products on the tensor cores (sm_80): D[16,8] += A[16,K] · B[K,8], fp32 accumulators.
// With g = lane / 4 and t = lane % 4, and K split into two halves of 4·(4 / element bytes) elements:
//   a[0..3] hold rows g, g+8, g, g+8, of the low, low, high, high half, 32 bits at position t;
//   b[0..1] hold column g of the low and the high half, 32 bits at position t;
//   d[0..3] hold (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).
// The products are volatile: the compiler then leaves them among the barriers and loads they were written between, and
// those behind a barrier cover the latency of the loads that follow it.
// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16" and "for mma.m16n8k8".
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

template <class T>
__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
template <>
__device__ __forceinline__ void mma<bf16>(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
template <>
__device__ __forceinline__ void mma<f16>(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
// NOTE: operands must already be rounded by cvt_tf32.
template <>
__device__ __forceinline__ void mma<tf32>(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// cvt.rna.tf32.f32, on the bits of a float
__device__ __forceinline__ uint32_t cvt_tf32(uint32_t x) {
  uint32_t y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

}  // namespace kiln::ptx
