// A configuration: one value for each parameter of a template. A plain value; thread-safe as such.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace kiln {

using Config = std::map<std::string, std::int64_t>;

// "BK=64,BM=128,STAGES=4": sorted by name, so equal configurations have equal texts.
std::string to_text(const Config& config);
// Reads what to_text writes. Throws Error{invalid_argument} naming the piece that cannot be read.
Config parse_config(std::string_view text);

}  // namespace kiln
