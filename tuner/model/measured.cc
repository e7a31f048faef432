#include "tuner/model/measured.h"

#include <map>
#include <optional>

#include "kernel/config_scope.h"
#include "kiln/error.h"

namespace kiln::tuner {
namespace {

// The problem as the op reads now, or empty where it or the template no longer takes it.
std::optional<Problem> readable_problem(const KernelTemplate& t, const cuda::DeviceInfo& device,
                                        const std::string& canonical) {
  try {
    Problem problem = complete(*t.op, parse_canonical_problem(canonical));
    if (!rejection(t, problem, device).empty()) return std::nullopt;
    return problem;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_legal(ConfigScope& bound, const Config& config) {
  try {
    bound.set(config);
    for (const ConfigScope::Constraint& constraint : bound.constraints()) {
      if (constraint.holds() == 0) return false;
    }
    return true;
  } catch (const Error&) {
    return false;  // parameters of an earlier form
  }
}

}  // namespace

std::vector<MeasuredProblem> measured_problems(Store& store, const KernelTemplate& t, const cuda::DeviceInfo& device,
                                               TrialForms forms) {
  std::map<std::string, std::map<std::string, Trial>> newest;  // by problem and configuration
  for (Trial& trial : store.trials_of_template(cuda::hardware_class(device), t.manifest.name)) {
    if (trial.evidence != Evidence::measured || !trial.timing || trial.timing->median_us <= 0) continue;
    if (forms == TrialForms::current && trial.template_digest != t.digest.hex()) continue;
    auto& of_problem = newest[trial.problem];
    const std::string config = to_text(trial.config);
    const auto known = of_problem.find(config);
    if (known == of_problem.end() || known->second.unix_time <= trial.unix_time) of_problem[config] = std::move(trial);
  }

  std::vector<MeasuredProblem> problems;
  for (const auto& [canonical, trials] : newest) {
    const std::optional<Problem> problem = readable_problem(t, device, canonical);
    if (!problem) continue;
    MeasuredProblem measured{.problem = *problem, .configs = {}};
    ConfigScope bound(t, *problem, device);
    for (const auto& [text, trial] : trials) {
      if (is_legal(bound, trial.config)) measured.configs.push_back({trial.config, trial.timing->median_us});
    }
    if (!measured.configs.empty()) problems.push_back(std::move(measured));
  }
  return problems;
}

}  // namespace kiln::tuner
