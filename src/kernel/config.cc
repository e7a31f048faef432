#include "kiln/config.h"

#include <charconv>

#include "kiln/error.h"

namespace kiln {

std::string to_text(const Config& config) {
  std::string text;
  for (const auto& [name, value] : config) {
    if (!text.empty()) text += ',';
    text += name + "=" + std::to_string(value);
  }
  return text;
}

Config parse_config(std::string_view text) {
  Config config;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view piece = rest.substr(0, comma);
    const auto refuse = [&](const std::string& reason) {
      throw Error(ErrorCode::invalid_argument,
                  "config '" + std::string(text) + "': '" + std::string(piece) + "' " + reason);
    };

    const std::size_t equals = piece.find('=');
    if (equals == std::string_view::npos || equals == 0) refuse("is not NAME=INTEGER, e.g. BM=128");
    const std::string_view digits = piece.substr(equals + 1);
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (status != std::errc{} || end != digits.data() + digits.size()) refuse("does not end in a 64-bit integer");
    if (!config.emplace(piece.substr(0, equals), value).second) refuse("gives a parameter for the second time");

    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) {
      throw Error(ErrorCode::invalid_argument, "config '" + std::string(text) + "' ends in a comma");
    }
  }
  return config;
}

}  // namespace kiln
