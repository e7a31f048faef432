#include "tuner/candidate.h"

namespace kiln::tuner {

std::string describe(const std::string& template_name, const Config& config) {
  return config.empty() ? template_name : template_name + " " + to_text(config);
}

}  // namespace kiln::tuner
