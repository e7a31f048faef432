// Small helpers over text that several modules need. Thread-safe (no state).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// `parts` with `separator` between them.
std::string join(const std::vector<std::string>& parts, std::string_view separator);
// The pieces between separators, blanks around each taken off; an empty text has no pieces.
std::vector<std::string> split(std::string_view text, char separator);
std::string trim(std::string_view text);
std::string lower(std::string_view text);
// For messages: "; did you mean 'x'?" with the known names most like `name`, or empty.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

}  // namespace kiln
