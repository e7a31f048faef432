// The quoted includes of kernel sources, followed to the end: what one translation unit can see. Thread-safe (no
// state).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct IncludeSet {
  std::map<std::string, std::string> headers;  // include name → text
  std::vector<std::string> system;             // names in <…>, left to the compiler's search path
};

// Starts at `name` and follows every #include "…". `read` answers a name's text, or empty. Throws Error{not_found}
// naming the includer and `searched` (for people) when one cannot be found.
IncludeSet collect_includes(const std::string& name,
                            const std::function<std::optional<std::string>(const std::string&)>& read,
                            const std::string& searched);

}  // namespace kiln
