// Fits the constants of a template's cost model to measured trials. Deterministic: the same trials give the same
// constants. Pure but for its own threads; thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tuner/model/measured.h"

namespace kiln::tuner {

struct FitOptions {
  // Evaluations of the model over all trials; what bounds the fit.
  int max_evaluations = 1500;
  // Of a problem with more configurations, so many are used: the faster half by rank, and of the rest every n-th.
  std::size_t max_configs_per_problem = 400;
};

struct FitResult {
  std::vector<CostConstant> constants;
  double loss_before = 0;
  double loss_after = 0;
  int evaluations = 0;
  bool converged = false;  // false: the evaluations ran out first, or `keep_going` said no
};

// Coordinate descent with multiplicative steps, large ones first, on the mean over the problems of
//   ln(time ÷ best) of the model's choice, the choice softened so that predictions within some 2 % count as equal,
//   + 0.3 × the deviation of ln(prediction ÷ time) from its mean, in which fast configurations weigh most,
//   + 0.05 × the size of that mean, so that predictions of several templates stay comparable.
// A constant stays within a factor of 20 of where it starts. REQUIRES: at least one problem and one constant.
FitResult fit_constants(const KernelTemplate& t, const std::vector<MeasuredProblem>& problems,
                        const cuda::DeviceInfo& device, const FitOptions& options,
                        const std::function<bool()>& keep_going);

// The part of the loss that one problem adds.
double model_loss(const std::vector<double>& predicted, const std::vector<MeasuredConfig>& measured);

}  // namespace kiln::tuner
