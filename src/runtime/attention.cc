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

std::string to_text(Lengths lengths) {
  switch (lengths) {
    case Lengths::equal:
      return "equal";
    case Lengths::cumulative:
      return "cumulative";
  }
  throw Error(ErrorCode::invalid_argument, "attention: lengths is " + std::to_string(static_cast<int>(lengths)) +
                                               "; allowed are Lengths::equal and Lengths::cumulative");
}

void set_if_given(Problem& problem, const std::string& dim, const std::optional<std::int64_t>& value) {
  if (value) problem.dims[dim] = *value;
}

void set_strides(Problem& problem, const std::string& operand, const Strides& strides) {
  set_if_given(problem, operand + "_row", strides.token);
  set_if_given(problem, operand + "_head", strides.head);
  set_if_given(problem, operand + "_batch", strides.batch);
}

// What only one of the two kinds of lengths has would be lost without a word.
void check_lengths(const Attention& attention) {
  if (attention.lengths == Lengths::equal) {
    if (attention.total_q == 0 && !attention.total_k) return;
    throw Error(ErrorCode::invalid_argument,
                "attention: total_q is " + std::to_string(attention.total_q) +
                    (attention.total_k ? " and total_k is " + std::to_string(*attention.total_k) : std::string()) +
                    "; totals need Lengths::cumulative, equal lengths have none");
  }
  const std::array operands{std::pair{"q", &attention.q_strides}, std::pair{"k", &attention.k_strides},
                            std::pair{"v", &attention.v_strides}, std::pair{"o", &attention.o_strides}};
  for (const auto& [name, strides] : operands) {
    if (!strides->batch) continue;
    throw Error(ErrorCode::invalid_argument,
                std::string("attention: ") + name + "_strides.batch is " + std::to_string(*strides->batch) +
                    "; with Lengths::cumulative it must be absent, since sequences follow one another token by token");
  }
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
  check_lengths(attention);
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
  if (attention.lengths != Lengths::equal) {
    problem.choices["lengths"] = to_text(attention.lengths);
    problem.dims["T_q"] = attention.total_q;
    problem.dims["T_k"] = attention.total_k.value_or(attention.total_q);
    for (const char* operand : {"cu_q", "cu_k"})
      problem.alignments[operand] = std::max(attention.alignment, size_of(DType::i32));
  }
  for (const char* operand : {"q", "k", "v"}) problem.alignments[operand] = attention.alignment;
  // Wider elements are aligned to themselves at the least.
  problem.alignments["o"] = std::max(attention.alignment, size_of(attention.o.value_or(attention.dtype)));
  problem.alignments["lse"] = std::max(attention.alignment, size_of(f32));
  return problem;
}

AttentionOperation::AttentionOperation(Operation operation, const Attention& attention)
    : operation_(std::move(operation)),
      scale_(attention.scale.value_or(1.0F / std::sqrt(static_cast<float>(attention.d)))),
      cap_(attention.softcap > 0 ? attention.softcap : 1.0F),
      offsets_(attention.lengths == Lengths::cumulative && attention.batch > 0 && attention.heads > 0 &&
                       attention.s_q > 0
                   ? attention.batch + 1
                   : 0) {}

void AttentionOperation::operator()(Stream stream, const AttentionCall& call) const {
  if (offsets_ > 0 && (call.cu_q == nullptr || call.cu_k == nullptr)) {
    throw Error(ErrorCode::invalid_argument, std::string("attention: ") + (call.cu_q == nullptr ? "cu_q" : "cu_k") +
                                                 " is null; with Lengths::cumulative it must point to batch + 1 = " +
                                                 std::to_string(offsets_) + " offsets in device memory");
  }
  const std::array<void*, 7> pointers{const_cast<void*>(call.q),
                                      const_cast<void*>(call.k),
                                      const_cast<void*>(call.v),
                                      call.o,
                                      call.lse,
                                      const_cast<std::int32_t*>(call.cu_q),
                                      const_cast<std::int32_t*>(call.cu_k)};
  const std::array<double, 2> scalars{scale_, cap_};
  operation_(stream, pointers, scalars, call.workspace);
}

void AttentionOperation::operator()(Stream stream, const void* q, const void* k, const void* v, void* o, float* lse,
                                    void* workspace) const {
  (*this)(stream, {.q = q, .k = k, .v = v, .o = o, .lse = lse, .workspace = workspace});
}

std::size_t AttentionOperation::workspace_bytes() const { return operation_.workspace_bytes(); }
void AttentionOperation::reserve(Stream stream) const { operation_.reserve(stream); }
Provenance AttentionOperation::provenance() const { return operation_.provenance(); }

}  // namespace kiln
