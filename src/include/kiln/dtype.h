// The element types an operand can have, as the host names them.
#pragma once

#include <optional>
#include <string_view>

namespace kiln {

enum class DType {
  f32,
  tf32,  // stored as a 32-bit float; products are taken in TF32
  f16,
  bf16,
  f8e4m3,
  f8e5m2,
  i8,
  u8,
  i32,
  u32,
  i64,
};

inline constexpr DType f32 = DType::f32;
inline constexpr DType tf32 = DType::tf32;
inline constexpr DType f16 = DType::f16;
inline constexpr DType bf16 = DType::bf16;

// Bytes of one element.
int size_of(DType dtype) noexcept;
// The name used in manifests, problems and on the command line, e.g. "bf16".
std::string_view to_string(DType dtype) noexcept;
// Also accepts the common long names fp32, fp16, float32, float16, bfloat16. Empty when unknown.
std::optional<DType> parse_dtype(std::string_view name) noexcept;
// Every name to_string() can give, comma-separated: for messages.
std::string_view dtype_names() noexcept;

}  // namespace kiln
