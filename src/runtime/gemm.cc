#include "kiln/gemm.h"

#include <array>
#include <utility>

#include "kiln/error.h"
#include "runtime/gemm_canonical.h"

namespace kiln {
namespace {

std::string to_text(Layout layout) { return layout == Layout::row ? "row" : "col"; }
Layout transposed(Layout layout) { return layout == Layout::row ? Layout::col : Layout::row; }

void set_if_given(Problem& problem, const char* dim, std::int64_t value) {
  if (value != 0) problem.dims[dim] = value;
}

}  // namespace

CanonicalGemm canonical(const Gemm& gemm) {
  CanonicalGemm result;
  result.swapped = gemm.d_layout == Layout::col;
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
  problem.dtypes = {{"a", a_dtype}, {"b", b_dtype}, {"d", gemm.d}};
  problem.choices = {{"a_layout", to_text(a_layout)}, {"b_layout", to_text(b_layout)}};
  problem.alignments = {{"a", gemm.alignment}, {"b", gemm.alignment}, {"d", gemm.alignment}};
  result.dynamic_dim = gemm.m.is_bound ? (result.swapped ? "N" : "M") : "";
  return result;
}

Problem to_problem(const Gemm& gemm) { return canonical(gemm).problem; }

void GemmOperation::operator()(Stream stream, const void* a, const void* b, void* d, float alpha, float beta,
                               void* workspace) const {
  if (swapped_) std::swap(a, b);
  const std::array pointers{const_cast<void*>(a), const_cast<void*>(b), d};
  const std::array<double, 2> scalars{alpha, beta};
  operation_(stream, pointers, scalars, workspace);
}

void GemmOperation::operator()(Stream stream, std::int64_t m, const void* a, const void* b, void* d, float alpha,
                               float beta, void* workspace) const {
  if (swapped_) std::swap(a, b);
  const std::array pointers{const_cast<void*>(a), const_cast<void*>(b), d};
  const std::array<double, 2> scalars{alpha, beta};
  operation_(stream, m, pointers, scalars, workspace);
}

std::size_t GemmOperation::workspace_bytes() const { return operation_.workspace_bytes(); }
void GemmOperation::reserve(Stream stream) const { operation_.reserve(stream); }
Provenance GemmOperation::provenance(std::int64_t m) const { return operation_.provenance(m); }

}  // namespace kiln
