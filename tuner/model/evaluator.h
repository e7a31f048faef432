// A template's cost model over measured configurations, asked again and again with other constants. Not thread-safe;
// evaluates several problems at one time on threads of its own.
#pragma once

#include <memory>
#include <vector>

#include "tuner/model/measured.h"

namespace kiln::tuner {

class ModelEvaluator {
 public:
  // REQUIRES: the template has a cost model. `t` and `problems` must outlive it.
  ModelEvaluator(const KernelTemplate& t, const std::vector<MeasuredProblem>& problems, const cuda::DeviceInfo& device);
  ~ModelEvaluator();

  // Predicted microseconds of every configuration, a list for each problem. `constants` are all of the manifest's.
  // Throws Error{invalid_expression} when they lead to a division by zero or an overflow.
  std::vector<std::vector<double>> predict(const std::vector<CostConstant>& constants);

 private:
  struct Bound;
  std::vector<std::unique_ptr<Bound>> bound_;  // by problem
  double cycles_per_us_;
};

}  // namespace kiln::tuner
