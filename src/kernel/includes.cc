#include "kernel/includes.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "kiln/error.h"

namespace kiln {
namespace {

struct Include {
  std::string name;
  bool quoted = false;
};

// What `line` includes, or empty. By hand, since compiling the regular expression costs a query a fifth of its time.
std::optional<Include> include_of(std::string_view line) {
  const auto skip = [&line](std::string_view what) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with(what)) return false;
    line.remove_prefix(what.size());
    return true;
  };
  if (!skip("#") || !skip("include")) return std::nullopt;
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (line.empty() || (line.front() != '"' && line.front() != '<')) return std::nullopt;
  const bool quoted = line.front() == '"';
  const auto end = line.find(quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) return std::nullopt;
  return Include{std::string(line.substr(1, end - 1)), quoted};
}

}  // namespace

IncludeSet collect_includes(const std::string& name,
                            const std::function<std::optional<std::string>(const std::string&)>& read,
                            const std::string& searched) {
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
      const auto include = include_of(line);
      if (!include) continue;
      if (include->quoted) {
        pending.emplace_back(include->name, "included by " + current);
      } else {
        set.system.push_back(include->name);
      }
    }
    set.headers.emplace(current, std::move(*text));
  }
  return set;
}

}  // namespace kiln
