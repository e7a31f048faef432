#include "kiln/gemm.h"

#include <array>
#include <utility>

#include "kiln/error.h"
#include "runtime/gemm_canonical.h"

namespace kiln {
namespace {

std::string to_text(Layout layout) { return layout == Layout::row ? "row" : "col"; }
Layout transposed(Layout layout) { return layout == Layout::row ? Layout::col : Layout::row; }

std::string to_text(Addend addend) {
  switch (addend) {
    case Addend::d:
      return "d";
    case Addend::c:
      return "c";
    case Addend::residual:
      return "residual";
  }
  throw Error(ErrorCode::invalid_argument, "gemm: addend is none of Addend's values");
}

std::string to_text(Bias bias, bool swapped) {
  switch (bias) {
    case Bias::none:
      return "none";
    case Bias::n:
      return swapped ? "m" : "n";
    case Bias::m:
      return swapped ? "n" : "m";
  }
  throw Error(ErrorCode::invalid_argument, "gemm: bias is none of Bias's values");
}

std::string to_text(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::silu:
      return "silu";
    case Activation::swiglu:
      return "swiglu";
  }
  throw Error(ErrorCode::invalid_argument, "gemm: activation is none of Activation's values");
}

void set_if_given(Problem& problem, const char* dim, std::int64_t value) {
  if (value != 0) problem.dims[dim] = value;
}

}  // namespace

CanonicalGemm canonical(const Gemm& gemm) {
  CanonicalGemm result;
  result.swapped = gemm.d_layout == Layout::col;
  if (result.swapped && gemm.activation == Activation::swiglu) {
    throw Error(ErrorCode::invalid_argument,
                "gemm: swiglu pairs columns of the product, which a column-major D does not allow; use Layout::row for "
                "D, or activation none and a kernel of your own after it");
  }
  // Dᵀ[N,M] = Bᵀ[N,K] · Aᵀ[K,M]: the operands trade places, each read as its transpose.
  const auto [a_dtype, b_dtype] = result.swapped ? std::pair(gemm.b, gemm.a) : std::pair(gemm.a, gemm.b);
  const auto [a_layout, b_layout] = result.swapped ? std::pair(transposed(gemm.b_layout), transposed(gemm.a_layout))
                                                   : std::pair(gemm.a_layout, gemm.b_layout);
  Problem& problem = result.problem;
  problem.op = "gemm";
  problem.dims["M"] = result.swapped ? gemm.n : gemm.m.value;
  problem.dims["N"] = result.swapped ? gemm.m.value : gemm.n;
  problem.dims["K"] = gemm.k;
  problem.dims["batch"] = gemm.batch;
  set_if_given(problem, "lda", result.swapped ? gemm.ldb : gemm.lda);
  set_if_given(problem, "ldb", result.swapped ? gemm.lda : gemm.ldb);
  set_if_given(problem, "ldd", gemm.ldd);
  set_if_given(problem, "stride_a", result.swapped ? gemm.stride_b : gemm.stride_a);
  set_if_given(problem, "stride_b", result.swapped ? gemm.stride_a : gemm.stride_b);
  set_if_given(problem, "stride_d", gemm.stride_d);
  set_if_given(problem, "ldc", gemm.ldc);
  set_if_given(problem, "stride_c", gemm.stride_c);
  problem.dtypes = {{"a", a_dtype}, {"b", b_dtype}, {"d", gemm.d}};
  if (gemm.c) problem.dtypes["c"] = *gemm.c;
  problem.choices = {{"a_layout", to_text(a_layout)},
                     {"b_layout", to_text(b_layout)},
                     {"addend", to_text(gemm.addend)},
                     {"bias", to_text(gemm.bias, result.swapped)},
                     {"activation", to_text(gemm.activation)}};
  for (const char* operand : {"a", "b", "d", "c", "bias"}) problem.alignments[operand] = gemm.alignment;
  result.dynamic_dim = gemm.m.is_bound ? (result.swapped ? "N" : "M") : "";
  return result;
}

Problem to_problem(const Gemm& gemm) { return canonical(gemm).problem; }

void GemmOperation::operator()(Stream stream, const void* a, const void* b, void* d, float alpha, float beta,
                               void* workspace) const {
  (*this)(stream, GemmCall{.a = a, .b = b, .d = d, .alpha = alpha, .beta = beta, .workspace = workspace});
}

void GemmOperation::operator()(Stream stream, std::int64_t m, const void* a, const void* b, void* d, float alpha,
                               float beta, void* workspace) const {
  (*this)(stream, m, GemmCall{.a = a, .b = b, .d = d, .alpha = alpha, .beta = beta, .workspace = workspace});
}

std::array<void*, 5> GemmOperation::pointers(const GemmCall& call) const {
  const void* first = swapped_ ? call.b : call.a;
  const void* second = swapped_ ? call.a : call.b;
  return {const_cast<void*>(first), const_cast<void*>(second), call.d, const_cast<void*>(call.c),
          const_cast<void*>(call.bias)};
}

std::array<double, 2> GemmOperation::scalars(const GemmCall& call) const {
  return {call.alpha, call.beta.value_or(has_c_ ? 1.0F : 0.0F)};
}

void GemmOperation::operator()(Stream stream, const GemmCall& call) const {
  operation_(stream, pointers(call), scalars(call), call.workspace);
}

void GemmOperation::operator()(Stream stream, std::int64_t m, const GemmCall& call) const {
  operation_(stream, m, pointers(call), scalars(call), call.workspace);
}

std::size_t GemmOperation::workspace_bytes() const { return operation_.workspace_bytes(); }
void GemmOperation::reserve(Stream stream) const { operation_.reserve(stream); }
Provenance GemmOperation::provenance(std::int64_t m) const { return operation_.provenance(m); }

}  // namespace kiln
