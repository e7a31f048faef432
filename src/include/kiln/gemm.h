// The typed GEMM: D[M,N] = activation(alpha · A[M,K] · B[K,N] + beta · D + bias), for each of `batch` matrices. Without
// more being said, there is no activation and no bias.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "kiln/dtype.h"
#include "kiln/operation.h"

namespace kiln {

// An extent known when preparing, or only bounded: up_to(8192).
struct Extent {
  std::int64_t value = 0;
  bool is_bound = false;
  Extent() = default;
  Extent(std::int64_t exact) : value(exact) {}  // NOLINT(google-explicit-constructor): .m = 4096 should read so
  bool operator==(const Extent&) const = default;
};
inline Extent up_to(std::int64_t bound) {
  Extent extent(bound);
  extent.is_bound = true;
  return extent;
}

enum class Layout { row, col };  // row: the second index is contiguous

// What beta multiplies.
enum class Addend {
  d,         // D as it was
  c,         // another matrix C in its place
  residual,  // C, added after the activation
};
// A vector added before the activation, the same for every matrix of the batch.
enum class Bias {
  none,
  n,  // one value for each column of the product
  m,  // one value for each row
};
enum class Activation {
  none,
  relu,
  gelu,       // x · Φ(x), by the error function
  gelu_tanh,  // its usual approximation
  silu,       // x · sigmoid(x)
  swiglu,     // silu(even column) · next column: D has n / 2 columns, and what beta multiplies is added after it
};

struct Gemm {
  Extent m;  // rows of A and D; the only extent that may be up_to(…)
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType a = bf16;
  DType b = bf16;
  DType d = bf16;
  Layout a_layout = Layout::row;  // of A [M,K]
  Layout b_layout = Layout::col;  // of B [K,N]; col is the usual weight matrix stored [N,K]
  Layout d_layout = Layout::row;  // of D [M,N]
  // Leading dimensions in elements; 0: packed.
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldd = 0;
  std::int64_t batch = 1;
  // Elements from one matrix of the batch to the next; 0: packed.
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_d = 0;
  // The epilogue. C has D's shape and layout.
  Addend addend = Addend::d;
  Bias bias = Bias::none;
  Activation activation = Activation::none;
  std::optional<DType> c = std::nullopt;  // of C and of the bias; D's where it is not given
  std::int64_t ldc = 0;
  std::int64_t stride_c = 0;
  // Bytes that every pointer will be a multiple of. Less aligned pointers at a call are served too, more slowly.
  int alignment = 16;

  bool operator==(const Gemm&) const = default;
};

// The problem a typed GEMM stands for; up_to(m) counts as m. A column-major D is solved as its transpose, so A and B
// may come swapped; swiglu, which pairs columns, cannot be solved so and is refused. Throws Error{invalid_argument}.
Problem to_problem(const Gemm& gemm);

// Device pointers and scalars of one call. A null pointer is an error unless its matrix is empty or not in the GEMM.
struct GemmCall {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* c = nullptr;  // may be d
  const void* bias = nullptr;
  float alpha = 1.0F;
  std::optional<float> beta = std::nullopt;  // where it is not given: 0 for D, 1 for C
  void* workspace = nullptr;                 // as below
};

// A GEMM ready to launch. Thread-safe; cheap to copy (shared state).
class GemmOperation {
 public:
  // D = alpha·A·B + beta·D on `stream`, in device pointers. D is not read when beta is 0. A null pointer is an error
  // unless its matrix is empty. `workspace` of workspace_bytes(), or null: the operation keeps one per stream,
  // allocated at the first call on it (so call once, or reserve(), before capturing a graph). Throws
  // Error{invalid_argument}, {launch_failed}.
  void operator()(Stream stream, const void* a, const void* b, void* d, float alpha = 1.0F, float beta = 0.0F,
                  void* workspace = nullptr) const;
  // The same for a GEMM prepared with m = up_to(…): 0 ≤ m ≤ the bound.
  void operator()(Stream stream, std::int64_t m, const void* a, const void* b, void* d, float alpha = 1.0F,
                  float beta = 0.0F, void* workspace = nullptr) const;
  // The same with all that an epilogue may need.
  void operator()(Stream stream, const GemmCall& call) const;
  void operator()(Stream stream, std::int64_t m, const GemmCall& call) const;
  std::size_t workspace_bytes() const;
  void reserve(Stream stream) const;
  // Which configuration answers for `m` rows (ignored for a fixed m), and why.
  Provenance provenance(std::int64_t m = 0) const;

 private:
  friend class Runtime;
  GemmOperation(Operation operation, bool swapped, bool has_c)
      : operation_(std::move(operation)), swapped_(swapped), has_c_(has_c) {}
  std::array<void*, 5> pointers(const GemmCall& call) const;
  std::array<double, 2> scalars(const GemmCall& call) const;
  Operation operation_;
  bool swapped_ = false;
  bool has_c_ = false;
};

}  // namespace kiln
