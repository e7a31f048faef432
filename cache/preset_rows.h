// The rows of the presets that are built into the library, each to be parsed by itself. Immutable; thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace kiln::cache {

struct PresetRow {
  std::string_view hardware_class;
  std::string_view problem;  // canonical
  std::string_view json;     // the whole decision, as row_json.h reads it
};

// File by file, in the order of each. Defined in the source that cmake/preset_rows.cmake generates from presets/*.json.
std::span<const PresetRow> preset_rows();

}  // namespace kiln::cache
