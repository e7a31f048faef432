#include "kernel/includes.h"

#include <regex>
#include <sstream>
#include <utility>

#include "kiln/error.h"

namespace kiln {

IncludeSet collect_includes(const std::string& name,
                            const std::function<std::optional<std::string>(const std::string&)>& read,
                            const std::string& searched) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
  IncludeSet set;
  std::vector<std::pair<std::string, std::string>> pending{{name, "the manifest's source"}};  // name, included by
  while (!pending.empty()) {
    const auto [current, includer] = pending.back();
    pending.pop_back();
    if (set.headers.count(current) != 0) continue;
    auto text = read(current);
    if (!text) {
      throw Error(ErrorCode::not_found, "'" + current + "' (" + includer + ") is not found; looked in " + searched);
    }
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      // Nearly every line is not a directive, and the expression is slow to say so.
      if (const auto first = line.find_first_not_of(" \t"); first == std::string::npos || line[first] != '#') continue;
      std::smatch match;
      if (!std::regex_search(line, match, kInclude)) continue;
      if (match[1] == "<") {
        set.system.push_back(match[2]);
      } else {
        pending.emplace_back(match[2], "included by " + current);
      }
    }
    set.headers.emplace(current, std::move(*text));
  }
  return set;
}

}  // namespace kiln
