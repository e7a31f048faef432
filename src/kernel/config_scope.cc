#include "kernel/config_scope.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "kiln/error.h"

namespace kiln {

ConfigScope::ConfigScope(const KernelTemplate& t, const Problem& problem, const cuda::DeviceInfo& device)
    : template_(t) {
  bind_problem(*t.op, problem, scope_);
  bind_device(device, scope_);
  for (const CostConstant& constant : t.manifest.cost_constants) scope_.set(constant.name, constant.value);
  std::map<std::string, int> level;
  for (std::size_t i = 0; i < t.manifest.params.size(); ++i) {
    level[t.manifest.params[i].name] = static_cast<int>(i);
    param_slots_.push_back(scope_.slot(t.manifest.params[i].name));
  }
  const auto level_of = [&level](const Expression& e) {
    int result = -1;
    for (const std::string& symbol : e.symbols()) {
      const auto it = level.find(symbol);
      if (it != level.end()) result = std::max(result, it->second);
    }
    return result;
  };
  for (const LetSpec& let : t.manifest.lets) {
    level[let.name] = level_of(let.value);
    double* slot = scope_.slot(let.name);
    lets_.push_back({slot, Evaluator(let.value, scope_), level[let.name]});
  }
  for (const Requirement& r : t.manifest.require) {
    constraints_.push_back({&r, Evaluator(r.condition, scope_), level_of(r.condition)});
  }
}

void ConfigScope::set(const Config& config) {
  const auto& params = template_.manifest.params;
  for (const auto& [name, value] : config) {
    if (template_.manifest.find_param(name) != nullptr) continue;
    std::vector<std::string> known;
    for (const ParamSpec& param : params) known.push_back(param.name);
    throw Error(ErrorCode::invalid_argument, "template " + template_.manifest.name + " has no parameter '" + name +
                                                 "'" + did_you_mean(name, known) + "; it has " + join(known, ", "));
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto it = config.find(params[i].name);
    if (it == config.end()) {
      throw Error(ErrorCode::invalid_argument, "the configuration says nothing of parameter '" + params[i].name +
                                                   "' of template " + template_.manifest.name);
    }
    scope_.set(params[i].name, it->second);
  }
  for (const Let& let : lets_) *let.slot = static_cast<double>(let.value());
}

}  // namespace kiln
