// The version of these headers.
#pragma once

namespace kiln {
inline constexpr char kVersion[] = "0.1.0";
}  // namespace kiln
