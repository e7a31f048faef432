// Decisions, trials and misses as JSON: the form of exports, presets and `--json` listings. Pure functions;
// thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "runtime/store.h"

namespace kiln::cache {

// An export or preset: {"format": "kiln-results", "version": 1, "decisions": […], "trials": […]}.
inline constexpr std::string_view kResultsFormat = "kiln-results";
inline constexpr int kResultsVersion = 1;

struct Results {
  std::vector<Decision> decisions;
  std::vector<Trial> trials;
};

Json to_json(const Versions& versions);
Json to_json(const Decision& decision);
Json to_json(const Trial& trial);
Json to_json(const Miss& miss);
Json to_json(const Results& results);

// Throw Error{invalid_argument} saying which field is missing or of the wrong kind.
Decision decision_from_json(const Json& json);
Trial trial_from_json(const Json& json);

// Reads a whole export or preset. Throws Error{invalid_argument} naming `file` and the row.
Results parse_results(std::string_view text, const std::string& file);

}  // namespace kiln::cache
