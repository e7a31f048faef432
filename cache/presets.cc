#include "cache/presets.h"

#include "base/log.h"
#include "cache/preset_rows.h"
#include "cache/row_json.h"
#include "kiln/error.h"

namespace kiln::cache {
namespace {

// What `read` makes of a row, or empty, having logged why.
template <class Read>
auto unless_broken(const PresetRow& row, const Read& read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const std::exception& error) {
    log("cache")->error("passing over a preset for {} on {}: {}", row.problem, row.hardware_class, error.what());
    return std::nullopt;
  }
}

std::optional<Decision> decision_of(const PresetRow& row) {
  return unless_broken(row, [&row] {
    Decision decision = decision_from_json(Json::parse(row.json));
    decision.origin = "preset";
    return decision;
  });
}

}  // namespace

std::vector<Preset> presets_of(const std::string& op) {
  std::vector<Preset> presets;
  for (const PresetRow& row : preset_rows()) {
    if (!row.problem.starts_with(op + " ")) continue;
    auto problem = unless_broken(row, [&row] { return parse_canonical_problem(row.problem); });
    if (!problem) continue;
    presets.push_back({.hardware_class = std::string(row.hardware_class),
                       .problem = *std::move(problem),
                       .decision = [&row] { return decision_of(row); }});
  }
  return presets;
}

std::vector<Decision> preset_decisions() {
  std::vector<Decision> decisions;
  for (const PresetRow& row : preset_rows()) {
    if (auto decision = decision_of(row)) decisions.push_back(*std::move(decision));
  }
  return decisions;
}

}  // namespace kiln::cache
