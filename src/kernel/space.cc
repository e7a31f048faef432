#include "kernel/space.h"

#include "kernel/config_scope.h"
#include "kiln/error.h"

namespace kiln {
namespace {

// Depth-first over the parameters in the manifest's order. At depth i the lets and constraints whose last parameter is
// the i-th are evaluated, so a broken constraint ends every assignment that extends this one.
class Walk {
 public:
  Walk(const KernelTemplate& t, ConfigScope& bound, const SpaceLimits& limits, const ConfigVisitor& visit)
      : params_(t.manifest.params), bound_(bound), limits_(limits), visit_(visit) {
    levels_.resize(params_.size() + 1);
    for (const auto& let : bound.lets()) levels_[index(let.level)].lets.push_back(&let);
    for (std::size_t i = 0; i < bound.constraints().size(); ++i) {
      levels_[index(bound.constraints()[i].level)].constraints.push_back(i);
    }
    result_.raw_size = 1;
    for (const ParamSpec& param : params_) result_.raw_size *= static_cast<double>(param.values.size());
    for (const auto& constraint : bound.constraints()) {
      result_.pruned.push_back({constraint.requirement->condition.text(), constraint.requirement->reason, 0});
    }
  }

  SpaceSummary run() {
    if (holds(0)) descend(0);
    return std::move(result_);
  }

 private:
  struct Level {
    std::vector<const ConfigScope::Let*> lets;
    std::vector<std::size_t> constraints;
  };
  static std::size_t index(int level) { return static_cast<std::size_t>(level) + 1; }

  bool holds(std::size_t level) {
    for (const auto* let : levels_[level].lets) *let->slot = static_cast<double>(let->value());
    for (const std::size_t i : levels_[level].constraints) {
      if (bound_.constraints()[i].holds() != 0) continue;
      ++result_.pruned[i].pruned;
      return false;
    }
    return true;
  }

  void descend(std::size_t depth) {
    if (depth == params_.size()) {
      if (result_.legal == limits_.max_configs) {
        result_.truncated = true;
        return;
      }
      ++result_.legal;
      visit_(config_);
      return;
    }
    std::int64_t& value_in_config = config_[params_[depth].name];
    for (const std::int64_t value : params_[depth].values) {
      if (result_.truncated) return;
      if (result_.visited == limits_.max_visited) {
        result_.truncated = true;
        return;
      }
      ++result_.visited;
      *bound_.param_slots()[depth] = static_cast<double>(value);
      value_in_config = value;
      if (holds(depth + 1)) descend(depth + 1);
    }
  }

  const std::vector<ParamSpec>& params_;
  ConfigScope& bound_;
  const SpaceLimits& limits_;
  const ConfigVisitor& visit_;
  std::vector<Level> levels_;
  Config config_;
  SpaceSummary result_;
};

}  // namespace

SpaceSummary for_each_config(ConfigScope& bound, const SpaceLimits& limits, const ConfigVisitor& visit) {
  const KernelTemplate& t = bound.kernel_template();
  try {
    return Walk(t, bound, limits, visit).run();
  } catch (const Error& error) {
    throw Error(error.code(), "template " + t.manifest.name + " (" + t.file + "): " + error.what());
  }
}

Space enumerate(const KernelTemplate& t, const Problem& problem, const cuda::DeviceInfo& device,
                const SpaceLimits& limits) {
  ConfigScope bound(t, problem, device);
  Space space;
  space.summary = for_each_config(bound, limits, [&space](const Config& config) { space.configs.push_back(config); });
  return space;
}

std::string illegal_reason(const KernelTemplate& t, const Problem& problem, const Config& config,
                           const cuda::DeviceInfo& device) {
  try {
    ConfigScope bound(t, problem, device);
    bound.set(config);
    for (const auto& constraint : bound.constraints()) {
      if (constraint.holds() == 0) {
        return constraint.requirement->reason + " (" + constraint.requirement->condition.text() + ")";
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace kiln
