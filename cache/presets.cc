#include "cache/presets.h"

#include "base/embedded.h"
#include "base/log.h"
#include "cache/row_json.h"
#include "kiln/error.h"

namespace kiln::cache {

std::vector<Decision> preset_decisions() {
  std::vector<Decision> decisions;
  for (const EmbeddedFile& file : embedded_files()) {
    if (!file.path.starts_with("presets/") || !file.path.ends_with(".json")) continue;
    try {
      for (Decision& decision : parse_results(file.text, std::string(file.path)).decisions) {
        decision.origin = "preset";
        decisions.push_back(std::move(decision));
      }
    } catch (const Error& error) {
      log("cache")->error("passing over a preset: {}", error.what());
    }
  }
  return decisions;
}

}  // namespace kiln::cache
