#include "tuner/model/evaluator.h"

#include <algorithm>
#include <future>

#include "kernel/config_scope.h"

namespace kiln::tuner {

struct ModelEvaluator::Bound {
  Bound(const KernelTemplate& t, const MeasuredProblem& measured_problem, const cuda::DeviceInfo& device)
      : measured(measured_problem),
        scope(t, measured.problem, device),
        cycles(*t.manifest.cost_cycles, scope.scope()) {}

  std::vector<double> predict(const std::vector<CostConstant>& constants, double cycles_per_us) {
    for (const CostConstant& constant : constants) scope.scope().set(constant.name, constant.value);
    std::vector<double> us;
    for (const MeasuredConfig& each : measured.configs) {
      scope.set(each.config);
      us.push_back(static_cast<double>(std::max<std::int64_t>(1, cycles())) / cycles_per_us);
    }
    return us;
  }

  const MeasuredProblem& measured;
  ConfigScope scope;
  Evaluator cycles;
};

ModelEvaluator::ModelEvaluator(const KernelTemplate& t, const std::vector<MeasuredProblem>& problems,
                               const cuda::DeviceInfo& device)
    : cycles_per_us_(std::max(1, device.clock_mhz)) {
  for (const MeasuredProblem& problem : problems) bound_.push_back(std::make_unique<Bound>(t, problem, device));
}

ModelEvaluator::~ModelEvaluator() = default;

std::vector<std::vector<double>> ModelEvaluator::predict(const std::vector<CostConstant>& constants) {
  std::vector<std::future<std::vector<double>>> running;
  for (const auto& bound : bound_) {
    running.push_back(std::async(std::launch::async,
                                 [&bound, &constants, this] { return bound->predict(constants, cycles_per_us_); }));
  }
  std::vector<std::vector<double>> predicted;
  for (auto& each : running) predicted.push_back(each.get());
  return predicted;
}

}  // namespace kiln::tuner
