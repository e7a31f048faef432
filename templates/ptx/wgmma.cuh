// The asynchronous matrix product of a warpgroup (sm_90a): D[64,N] = A[64,K] · B[K,N] + D, fp32 accumulators. K is 32
// bytes of operand: 16 elements of bf16 or f16, or 8 of TF32. A and B are read from shared memory through descriptors;
// tile/wgmma_operand.cuh makes them. Of each 8 columns a thread holds four accumulators: row 16 · warp + lane / 4,
// columns 2 · (lane % 4) and the next, then the same columns eight rows below.
#pragma once

#include "ptx/types.cuh"

namespace kiln::ptx {

// Orders earlier writes of the accumulators and of shared memory before the next wgmma. wgmma.fence.sync.aligned
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// wgmma.commit_group.sync.aligned
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until at most `Pending` groups are in flight. wgmma.wait_group.sync.aligned
template <int Pending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Keeps the compiler from moving a use of an accumulator across this point: it knows the registers of a wgmma as
// written where the instruction is issued, but they are valid only after the wait.
template <int Count>
__device__ __forceinline__ void fence_registers(float (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

// An asm statement numbers its operands in its text, so the accumulator lists are spelt for each N, eight columns (four
// registers) at a time: KILN_NAMES_n is the text "%0, … %(n/2-1)", KILN_REGISTERS_n the operands.
// clang-format off
#define KILN_NAMES_8 "%0, %1, %2, %3"
#define KILN_NAMES_16 KILN_NAMES_8 ", %4, %5, %6, %7"
#define KILN_NAMES_24 KILN_NAMES_16 ", %8, %9, %10, %11"
#define KILN_NAMES_32 KILN_NAMES_24 ", %12, %13, %14, %15"
#define KILN_NAMES_40 KILN_NAMES_32 ", %16, %17, %18, %19"
#define KILN_NAMES_48 KILN_NAMES_40 ", %20, %21, %22, %23"
#define KILN_NAMES_56 KILN_NAMES_48 ", %24, %25, %26, %27"
#define KILN_NAMES_64 KILN_NAMES_56 ", %28, %29, %30, %31"
#define KILN_NAMES_72 KILN_NAMES_64 ", %32, %33, %34, %35"
#define KILN_NAMES_80 KILN_NAMES_72 ", %36, %37, %38, %39"
#define KILN_NAMES_88 KILN_NAMES_80 ", %40, %41, %42, %43"
#define KILN_NAMES_96 KILN_NAMES_88 ", %44, %45, %46, %47"
#define KILN_NAMES_104 KILN_NAMES_96 ", %48, %49, %50, %51"
#define KILN_NAMES_112 KILN_NAMES_104 ", %52, %53, %54, %55"
#define KILN_NAMES_120 KILN_NAMES_112 ", %56, %57, %58, %59"
#define KILN_NAMES_128 KILN_NAMES_120 ", %60, %61, %62, %63"
#define KILN_NAMES_136 KILN_NAMES_128 ", %64, %65, %66, %67"
#define KILN_NAMES_144 KILN_NAMES_136 ", %68, %69, %70, %71"
#define KILN_NAMES_152 KILN_NAMES_144 ", %72, %73, %74, %75"
#define KILN_NAMES_160 KILN_NAMES_152 ", %76, %77, %78, %79"
#define KILN_NAMES_168 KILN_NAMES_160 ", %80, %81, %82, %83"
#define KILN_NAMES_176 KILN_NAMES_168 ", %84, %85, %86, %87"
#define KILN_NAMES_184 KILN_NAMES_176 ", %88, %89, %90, %91"
#define KILN_NAMES_192 KILN_NAMES_184 ", %92, %93, %94, %95"
#define KILN_NAMES_200 KILN_NAMES_192 ", %96, %97, %98, %99"
#define KILN_NAMES_208 KILN_NAMES_200 ", %100, %101, %102, %103"
#define KILN_NAMES_216 KILN_NAMES_208 ", %104, %105, %106, %107"
#define KILN_NAMES_224 KILN_NAMES_216 ", %108, %109, %110, %111"
#define KILN_NAMES_232 KILN_NAMES_224 ", %112, %113, %114, %115"
#define KILN_NAMES_240 KILN_NAMES_232 ", %116, %117, %118, %119"
#define KILN_NAMES_248 KILN_NAMES_240 ", %120, %121, %122, %123"
#define KILN_NAMES_256 KILN_NAMES_248 ", %124, %125, %126, %127"
#define KILN_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define KILN_REGISTERS_8 KILN_FOUR(0)
#define KILN_REGISTERS_16 KILN_REGISTERS_8, KILN_FOUR(4)
#define KILN_REGISTERS_24 KILN_REGISTERS_16, KILN_FOUR(8)
#define KILN_REGISTERS_32 KILN_REGISTERS_24, KILN_FOUR(12)
#define KILN_REGISTERS_40 KILN_REGISTERS_32, KILN_FOUR(16)
#define KILN_REGISTERS_48 KILN_REGISTERS_40, KILN_FOUR(20)
#define KILN_REGISTERS_56 KILN_REGISTERS_48, KILN_FOUR(24)
#define KILN_REGISTERS_64 KILN_REGISTERS_56, KILN_FOUR(28)
#define KILN_REGISTERS_72 KILN_REGISTERS_64, KILN_FOUR(32)
#define KILN_REGISTERS_80 KILN_REGISTERS_72, KILN_FOUR(36)
#define KILN_REGISTERS_88 KILN_REGISTERS_80, KILN_FOUR(40)
#define KILN_REGISTERS_96 KILN_REGISTERS_88, KILN_FOUR(44)
#define KILN_REGISTERS_104 KILN_REGISTERS_96, KILN_FOUR(48)
#define KILN_REGISTERS_112 KILN_REGISTERS_104, KILN_FOUR(52)
#define KILN_REGISTERS_120 KILN_REGISTERS_112, KILN_FOUR(56)
#define KILN_REGISTERS_128 KILN_REGISTERS_120, KILN_FOUR(60)
#define KILN_REGISTERS_136 KILN_REGISTERS_128, KILN_FOUR(64)
#define KILN_REGISTERS_144 KILN_REGISTERS_136, KILN_FOUR(68)
#define KILN_REGISTERS_152 KILN_REGISTERS_144, KILN_FOUR(72)
#define KILN_REGISTERS_160 KILN_REGISTERS_152, KILN_FOUR(76)
#define KILN_REGISTERS_168 KILN_REGISTERS_160, KILN_FOUR(80)
#define KILN_REGISTERS_176 KILN_REGISTERS_168, KILN_FOUR(84)
#define KILN_REGISTERS_184 KILN_REGISTERS_176, KILN_FOUR(88)
#define KILN_REGISTERS_192 KILN_REGISTERS_184, KILN_FOUR(92)
#define KILN_REGISTERS_200 KILN_REGISTERS_192, KILN_FOUR(96)
#define KILN_REGISTERS_208 KILN_REGISTERS_200, KILN_FOUR(100)
#define KILN_REGISTERS_216 KILN_REGISTERS_208, KILN_FOUR(104)
#define KILN_REGISTERS_224 KILN_REGISTERS_216, KILN_FOUR(108)
#define KILN_REGISTERS_232 KILN_REGISTERS_224, KILN_FOUR(112)
#define KILN_REGISTERS_240 KILN_REGISTERS_232, KILN_FOUR(116)
#define KILN_REGISTERS_248 KILN_REGISTERS_240, KILN_FOUR(120)
#define KILN_REGISTERS_256 KILN_REGISTERS_248, KILN_FOUR(124)
// clang-format on

// a, b, p, ta, tb are the numbers of the operands that follow the n / 2 accumulators.
#define KILN_WGMMA_ISSUE(n, type, a, b, p, ta, tb)                                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p                                             \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" KILN_NAMES_##n \
               "}, %" #a ", %" #b ", p, 1, 1, %" #ta ", %" #tb ";\n}\n"                            \
               : KILN_REGISTERS_##n                                                                \
               : "l"(a_descriptor), "l"(b_descriptor), "r"(scale_d), "n"(TransposeA), "n"(TransposeB))
// TF32 operands have K contiguous, and the instruction says nothing about it.
#define KILN_WGMMA_ISSUE_TF32(n, a, b, p)                                                                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p                                                       \
               ", 0;\n"                                                                                      \
               "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {" KILN_NAMES_##n "}, %" #a ", %" #b \
                                                                                          ", p, 1, 1;\n}\n"  \
               : KILN_REGISTERS_##n                                                                          \
               : "l"(a_descriptor), "l"(b_descriptor), "r"(scale_d))

#define KILN_WGMMA(n, a, b, p, ta, tb)              \
  if constexpr (N == n) {                           \
    if constexpr (is_same<T, bf16>) {               \
      KILN_WGMMA_ISSUE(n, "bf16", a, b, p, ta, tb); \
    } else if constexpr (is_same<T, f16>) {         \
      KILN_WGMMA_ISSUE(n, "f16", a, b, p, ta, tb);  \
    } else {                                        \
      KILN_WGMMA_ISSUE_TF32(n, a, b, p);            \
    }                                               \
  }

// Issues one product; `scale_d` = 0 ignores what D held. TransposeA and TransposeB are 1 for an operand whose M or N is
// contiguous, 0 where K is. Asynchronous: the accumulators are valid after commit and wait.
// wgmma.mma_async.sync.aligned.m64nNk16.f32.{bf16,f16}.{bf16,f16}, m64nNk8.f32.tf32.tf32
template <int N, class T, int TransposeA, int TransposeB>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t a_descriptor, uint64_t b_descriptor,
                                      int32_t scale_d) {
  static_assert(N % 8 == 0 && N >= 8 && N <= 256, "wgmma takes N = 8, 16, … 256");
  static_assert(is_same<T, bf16> || is_same<T, f16> || is_same<T, tf32>, "operands are bf16, f16 or tf32");
  static_assert(!is_same<T, tf32> || (TransposeA == 0 && TransposeB == 0), "tf32 operands have K contiguous");
  // clang-format off
  KILN_WGMMA(8, 4, 5, 6, 7, 8)
  KILN_WGMMA(16, 8, 9, 10, 11, 12)
  KILN_WGMMA(24, 12, 13, 14, 15, 16)
  KILN_WGMMA(32, 16, 17, 18, 19, 20)
  KILN_WGMMA(40, 20, 21, 22, 23, 24)
  KILN_WGMMA(48, 24, 25, 26, 27, 28)
  KILN_WGMMA(56, 28, 29, 30, 31, 32)
  KILN_WGMMA(64, 32, 33, 34, 35, 36)
  KILN_WGMMA(72, 36, 37, 38, 39, 40)
  KILN_WGMMA(80, 40, 41, 42, 43, 44)
  KILN_WGMMA(88, 44, 45, 46, 47, 48)
  KILN_WGMMA(96, 48, 49, 50, 51, 52)
  KILN_WGMMA(104, 52, 53, 54, 55, 56)
  KILN_WGMMA(112, 56, 57, 58, 59, 60)
  KILN_WGMMA(120, 60, 61, 62, 63, 64)
  KILN_WGMMA(128, 64, 65, 66, 67, 68)
  KILN_WGMMA(136, 68, 69, 70, 71, 72)
  KILN_WGMMA(144, 72, 73, 74, 75, 76)
  KILN_WGMMA(152, 76, 77, 78, 79, 80)
  KILN_WGMMA(160, 80, 81, 82, 83, 84)
  KILN_WGMMA(168, 84, 85, 86, 87, 88)
  KILN_WGMMA(176, 88, 89, 90, 91, 92)
  KILN_WGMMA(184, 92, 93, 94, 95, 96)
  KILN_WGMMA(192, 96, 97, 98, 99, 100)
  KILN_WGMMA(200, 100, 101, 102, 103, 104)
  KILN_WGMMA(208, 104, 105, 106, 107, 108)
  KILN_WGMMA(216, 108, 109, 110, 111, 112)
  KILN_WGMMA(224, 112, 113, 114, 115, 116)
  KILN_WGMMA(232, 116, 117, 118, 119, 120)
  KILN_WGMMA(240, 120, 121, 122, 123, 124)
  KILN_WGMMA(248, 124, 125, 126, 127, 128)
  KILN_WGMMA(256, 128, 129, 130, 131, 132)
  // clang-format on
}

// As KILN_WGMMA_ISSUE with A in four registers, whose operands are a to a + 3.
#define KILN_WGMMA_A_ISSUE(n, type, a0, a1, a2, a3, b, p, tb)                                      \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p                                             \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" KILN_NAMES_##n \
               "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", p, 1, 1, %" #tb ";\n}\n"     \
               : KILN_REGISTERS_##n                                                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_descriptor), "r"(scale_d), "n"(TransposeB))

#define KILN_WGMMA_A(n, a0, a1, a2, a3, b, p, tb)              \
  if constexpr (N == n) {                                      \
    if constexpr (is_same<T, bf16>) {                          \
      KILN_WGMMA_A_ISSUE(n, "bf16", a0, a1, a2, a3, b, p, tb); \
    } else {                                                   \
      KILN_WGMMA_A_ISSUE(n, "f16", a0, a1, a2, a3, b, p, tb);  \
    }                                                          \
  }

// The same with A in registers: a[0] holds row lane / 4 of its warp's 16 and columns 2 · (lane % 4) and the next, a[1]
// the row eight below, a[2] and a[3] the columns eight further. Registers of A must not change before the wait.
// wgmma.mma_async.sync.aligned.m64nNk16.f32.{bf16,f16}.{bf16,f16}
template <int N, class T, int TransposeB>
__device__ __forceinline__ void wgmma_a(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b_descriptor,
                                        int32_t scale_d) {
  static_assert(N % 16 == 0 && N >= 16 && N <= 256, "spelt for N = 16, 32, … 256");
  static_assert(is_same<T, bf16> || is_same<T, f16>, "operands are bf16 or f16");
  // clang-format off
  KILN_WGMMA_A(16, 8, 9, 10, 11, 12, 13, 14)
  KILN_WGMMA_A(32, 16, 17, 18, 19, 20, 21, 22)
  KILN_WGMMA_A(48, 24, 25, 26, 27, 28, 29, 30)
  KILN_WGMMA_A(64, 32, 33, 34, 35, 36, 37, 38)
  KILN_WGMMA_A(80, 40, 41, 42, 43, 44, 45, 46)
  KILN_WGMMA_A(96, 48, 49, 50, 51, 52, 53, 54)
  KILN_WGMMA_A(112, 56, 57, 58, 59, 60, 61, 62)
  KILN_WGMMA_A(128, 64, 65, 66, 67, 68, 69, 70)
  KILN_WGMMA_A(144, 72, 73, 74, 75, 76, 77, 78)
  KILN_WGMMA_A(160, 80, 81, 82, 83, 84, 85, 86)
  KILN_WGMMA_A(176, 88, 89, 90, 91, 92, 93, 94)
  KILN_WGMMA_A(192, 96, 97, 98, 99, 100, 101, 102)
  KILN_WGMMA_A(208, 104, 105, 106, 107, 108, 109, 110)
  KILN_WGMMA_A(224, 112, 113, 114, 115, 116, 117, 118)
  KILN_WGMMA_A(240, 120, 121, 122, 123, 124, 125, 126)
  KILN_WGMMA_A(256, 128, 129, 130, 131, 132, 133, 134)
  // clang-format on
}

#undef KILN_WGMMA
#undef KILN_WGMMA_ISSUE
#undef KILN_WGMMA_A
#undef KILN_WGMMA_A_ISSUE
#undef KILN_WGMMA_ISSUE_TF32

}  // namespace kiln::ptx
