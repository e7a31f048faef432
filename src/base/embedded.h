// Files built into the library: kernel templates under "templates/…", GPU profiles under "presets/…".
// Immutable; thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace kiln {

struct EmbeddedFile {
  std::string_view path;  // "templates/gemm/simt_gemm.cuh"
  std::string_view text;  // the bytes as they were
};

// Sorted by path. Defined in the source that cmake/embed.cmake generates.
std::span<const EmbeddedFile> embedded_files();

}  // namespace kiln
