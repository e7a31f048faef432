#include "kiln/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kiln/error.h"

namespace kiln {
namespace {

std::string to_text(Mask mask) {
  switch (mask) {
    case Mask::none:
      return "none";
    case Mask::causal:
      return "causal";
    case Mask::window:
      return "window";
  }
  throw Error(ErrorCode::invalid_argument, "attention: mask is " + std::to_string(static_cast<int>(mask)) +
                                               "; allowed are Mask::none, Mask::causal and Mask::window");
}

void set_if_given(Problem& problem, const std::string& dim, const std::optional<std::int64_t>& value) {
  if (value) problem.dims[dim] = *value;
}

void set_strides(Problem& problem, const std::string& operand, const Strides& strides) {
  set_if_given(problem, operand + "_row", strides.token);
  set_if_given(problem, operand + "_head", strides.head);
  set_if_given(problem, operand + "_batch", strides.batch);
}

void check(const Attention& attention) {
  // Not `softcap < 0`: a NaN is no cap either.
  if (!(attention.softcap >= 0) || std::isinf(attention.softcap)) {
    throw Error(ErrorCode::invalid_argument, "attention: softcap is " + std::to_string(attention.softcap) +
                                                 "; allowed are finite numbers above 0, and 0 for no cap");
  }
  if (attention.window != 0 && attention.mask != Mask::window) {
    throw Error(ErrorCode::invalid_argument, "attention: window is " + std::to_string(attention.window) +
                                                 " and mask is " + to_text(attention.mask) +
                                                 "; a window needs Mask::window, other masks a window of 0");
  }
  if (attention.window < 0) {
    throw Error(ErrorCode::invalid_argument, "attention: window is " + std::to_string(attention.window) +
                                                 "; it must be at least 0, the key where the query stands");
  }
}

}  // namespace

Problem to_problem(const Attention& attention) {
  check(attention);
  Problem problem;
  problem.op = "attention";
  problem.dims = {{"B", attention.batch}, {"H", attention.heads}, {"S_q", attention.s_q}, {"D", attention.d}};
  set_if_given(problem, "H_kv", attention.kv_heads);
  set_if_given(problem, "S_k", attention.s_k);
  set_if_given(problem, "D_v", attention.d_v);
  if (attention.mask == Mask::window) problem.dims["W"] = attention.window;
  set_strides(problem, "q", attention.q_strides);
  set_strides(problem, "k", attention.k_strides);
  set_strides(problem, "v", attention.v_strides);
  set_strides(problem, "o", attention.o_strides);
  problem.dtypes = {{"q", attention.dtype}};
  if (attention.o) problem.dtypes["o"] = *attention.o;
  problem.choices = {{"mask", to_text(attention.mask)},
                     {"softcap", attention.softcap > 0 ? "tanh" : "none"},
                     {"lse", attention.lse ? "stored" : "none"}};
  for (const char* operand : {"q", "k", "v"}) problem.alignments[operand] = attention.alignment;
  // Wider elements are aligned to themselves at the least.
  problem.alignments["o"] = std::max(attention.alignment, size_of(attention.o.value_or(attention.dtype)));
  problem.alignments["lse"] = std::max(attention.alignment, size_of(f32));
  return problem;
}

AttentionOperation::AttentionOperation(Operation operation, const Attention& attention)
    : operation_(std::move(operation)),
      scale_(attention.scale.value_or(1.0F / std::sqrt(static_cast<float>(attention.d)))),
      cap_(attention.softcap > 0 ? attention.softcap : 1.0F) {}

void AttentionOperation::operator()(Stream stream, const void* q, const void* k, const void* v, void* o, float* lse,
                                    void* workspace) const {
  const std::array<void*, 5> pointers{const_cast<void*>(q), const_cast<void*>(k), const_cast<void*>(v), o, lse};
  const std::array<double, 2> scalars{scale_, cap_};
  operation_(stream, pointers, scalars, workspace);
}

std::size_t AttentionOperation::workspace_bytes() const { return operation_.workspace_bytes(); }
void AttentionOperation::reserve(Stream stream) const { operation_.reserve(stream); }
Provenance AttentionOperation::provenance() const { return operation_.provenance(); }

}  // namespace kiln
