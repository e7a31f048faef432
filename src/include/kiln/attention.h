// The typed attention: O = softmax(scale · Q Kᵀ, masked) V for each head of each sequence, exactly. Q is
// [batch, heads, s_q, d], K [batch, kv_heads, s_k, d], V [batch, kv_heads, s_k, d_v] and O [batch, heads, s_q, d_v],
// each at strides of its own; the default is tokens of all their heads, packed (BSHD). Or sequences have lengths of
// their own and follow one another along the token axis: Q is then [total_q, heads, d], and so on; see Lengths.
#pragma once

#include <cstdint>
#include <optional>

#include "kiln/dtype.h"
#include "kiln/operation.h"

namespace kiln {

// The last query stands at the last key, also where there are not as many of each. A query that sees no key gives
// zeros.
enum class Mask {
  none,
  causal,  // a query sees the key where it stands and those before it
  window,  // of these, the one where it stands and `window` before it
};

enum class Lengths {
  equal,  // every sequence has s_q queries and s_k keys
  // Sequence b has the queries from cu_q[b] to before cu_q[b + 1] and the keys from cu_k[b] to before cu_k[b + 1],
  // maybe none of either: two arrays of batch + 1 offsets in device memory, given at each call, that never fall, from 0
  // or above to total_q and total_k or less. Tokens of no sequence are not touched. NOTE: what the arrays hold is not
  // checked.
  cumulative,
};

// Elements from one token, one head and one sequence to the next; absent: packed, over whatever is given. Inputs may
// have strides of 0, which repeat what they read; the elements of a head of a token are always contiguous.
struct Strides {
  std::optional<std::int64_t> token = std::nullopt;
  std::optional<std::int64_t> head = std::nullopt;
  std::optional<std::int64_t> batch = std::nullopt;
  bool operator==(const Strides&) const = default;
};
// Packed with the tokens of a head together: [batch, heads, tokens, d] in memory.
inline Strides bhsd(std::int64_t heads, std::int64_t tokens, std::int64_t d) {
  return {.token = d, .head = tokens * d, .batch = heads * tokens * d};
}
// Q, K or V of one tensor that holds all three for each token: [batch, tokens, heads + 2 · kv_heads, d] in memory. The
// pointers to K and V are then `heads` and `heads + kv_heads` heads behind that to Q.
inline Strides packed_qkv(std::int64_t heads, std::int64_t kv_heads, std::int64_t tokens, std::int64_t d) {
  const std::int64_t token = (heads + 2 * kv_heads) * d;
  return {.token = token, .head = d, .batch = tokens * token};
}

struct Attention {
  std::int64_t batch = 1;
  std::int64_t heads = 0;  // of Q and O
  std::optional<std::int64_t> kv_heads =
      std::nullopt;      // of K and V, each shared by the next heads / kv_heads; absent: heads
  std::int64_t s_q = 0;  // queries of a sequence; with Lengths::cumulative of the longest, or more
  std::optional<std::int64_t> s_k = std::nullopt;  // keys of a sequence, likewise; absent: s_q
  std::int64_t d = 0;                              // of a head of Q and K
  std::optional<std::int64_t> d_v = std::nullopt;  // of a head of V and O; absent: d
  DType dtype = bf16;                              // of Q, K and V: bf16 or f16
  std::optional<DType> o = std::nullopt;           // of O: bf16, f16 or f32; absent: dtype
  std::optional<float> scale = std::nullopt;       // of the logits; absent: 1 / sqrt(d)
  Mask mask = Mask::none;
  std::int64_t window = 0;  // with Mask::window: keys that a query sees before the one where it stands
  float softcap = 0;        // above 0: each logit x becomes softcap · tanh(x / softcap)
  bool lse = false;         // also gives each row's log-sum-exp
  Lengths lengths = Lengths::equal;
  // With Lengths::cumulative: tokens that Q and O, and K and V, have room for; absent: total_k is total_q.
  std::int64_t total_q = 0;
  std::optional<std::int64_t> total_k = std::nullopt;
  // Without those from sequence to sequence where lengths are cumulative.
  Strides q_strides = {};
  Strides k_strides = {};
  Strides v_strides = {};
  Strides o_strides = {};
  // Bytes that every pointer will be a multiple of. Less aligned pointers at a call are served too, more slowly.
  int alignment = 16;

  bool operator==(const Attention&) const = default;
};

// The problem a typed attention stands for; it holds neither the scale nor the value of the cap.
// Throws Error{invalid_argument}.
Problem to_problem(const Attention& attention);

// Device pointers of one call. A null pointer is an error unless its tensor is empty or not in the attention.
struct AttentionCall {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  // The natural logarithm of the sum of the exponentials of a row's logits, minus infinity for a row that sees no key;
  // used only when prepared with .lse. Packed in f32: [batch, heads, s_q], or [heads, total_q] where lengths are
  // cumulative.
  float* lse = nullptr;
  // Used only when prepared with Lengths::cumulative.
  const std::int32_t* cu_q = nullptr;
  const std::int32_t* cu_k = nullptr;
  void* workspace = nullptr;  // as in GemmOperation
};

// An attention ready to launch. Thread-safe; cheap to copy (shared state).
class AttentionOperation {
 public:
  // On `stream`. Throws Error{invalid_argument}, {launch_failed}.
  void operator()(Stream stream, const AttentionCall& call) const;
  // The same for lengths that are equal.
  void operator()(Stream stream, const void* q, const void* k, const void* v, void* o, float* lse = nullptr,
                  void* workspace = nullptr) const;
  // Of the templates that come with Kiln, only the reference needs any.
  std::size_t workspace_bytes() const;
  void reserve(Stream stream) const;
  // Which configuration answers, and why.
  Provenance provenance() const;

 private:
  friend class Runtime;
  AttentionOperation(Operation operation, const Attention& attention);
  Operation operation_;
  float scale_;
  float cap_;
  std::int64_t offsets_;  // that cu_q and cu_k point to; 0 where they are not used
};

}  // namespace kiln
