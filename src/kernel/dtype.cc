#include "kiln/dtype.h"

#include <array>

namespace kiln {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  std::string_view alias;
  std::string_view long_name;
  int bytes;
};

constexpr std::array kEntries{
    Entry{DType::f32, "f32", "fp32", "float32", 4},
    Entry{DType::tf32, "tf32", "", "", 4},
    Entry{DType::f16, "f16", "fp16", "float16", 2},
    Entry{DType::bf16, "bf16", "", "bfloat16", 2},
    Entry{DType::f8e4m3, "f8e4m3", "fp8e4m3", "", 1},
    Entry{DType::f8e5m2, "f8e5m2", "fp8e5m2", "", 1},
    Entry{DType::i8, "i8", "int8", "", 1},
    Entry{DType::u8, "u8", "uint8", "", 1},
    Entry{DType::i32, "i32", "int32", "", 4},
    Entry{DType::u32, "u32", "uint32", "", 4},
    Entry{DType::i64, "i64", "int64", "", 8},
};

const Entry& entry(DType dtype) noexcept {
  for (const Entry& e : kEntries) {
    if (e.dtype == dtype) return e;
  }
  return kEntries[0];
}

}  // namespace

int size_of(DType dtype) noexcept { return entry(dtype).bytes; }

std::string_view to_string(DType dtype) noexcept { return entry(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  if (name.empty()) return std::nullopt;
  for (const Entry& e : kEntries) {
    if (name == e.name || name == e.alias || name == e.long_name) return e.dtype;
  }
  return std::nullopt;
}

std::string_view dtype_names() noexcept { return "f32, tf32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32, u32, i64"; }

}  // namespace kiln
