#include "tuner/model/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kiln/error.h"
#include "tuner/model/evaluator.h"

namespace kiln::tuner {
namespace {

// Predictions closer than this (as a logarithm) are a toss-up for the one who chooses by them.
constexpr double kTossUp = 0.02;
constexpr double kErrorWeight = 0.3;
constexpr double kScaleWeight = 0.05;
constexpr double kFurthest = 20;
// Gains below this are noise of the trials.
constexpr double kLeastGain = 1e-5;
constexpr std::array kSteps{2.0, 1.4, 1.15, 1.05};

// The faster half, since that is where a choice falls, and a sample of the rest.
std::vector<MeasuredConfig> sample(std::vector<MeasuredConfig> configs, std::size_t count) {
  if (configs.size() <= count) return configs;
  std::stable_sort(configs.begin(), configs.end(),
                   [](const MeasuredConfig& a, const MeasuredConfig& b) { return a.us < b.us; });
  const std::size_t fast = count / 2;
  const std::size_t rest = count - fast;
  std::vector<MeasuredConfig> chosen(configs.begin(), configs.begin() + static_cast<std::ptrdiff_t>(fast));
  for (std::size_t i = 0; i < rest; ++i) chosen.push_back(configs[fast + i * (configs.size() - fast) / rest]);
  return chosen;
}

class Fit {
 public:
  Fit(const KernelTemplate& t, const std::vector<MeasuredProblem>& problems, const cuda::DeviceInfo& device,
      const FitOptions& options, const std::function<bool()>& keep_going)
      : start_(t.manifest.cost_constants),
        problems_(problems),
        evaluator_(t, problems_, device),
        options_(options),
        keep_going_(keep_going) {}

  FitResult run() {
    result_.constants = start_;
    result_.loss_before = result_.loss_after = loss(start_);
    result_.converged = true;
    for (const double step : kSteps) {
      bool improved = true;
      while (improved && may_go_on()) {
        improved = false;
        for (std::size_t i = 0; i < start_.size(); ++i) improved = improve(i, step) || improved;
      }
    }
    result_.converged = may_go_on();
    return std::move(result_);
  }

 private:
  bool may_go_on() const { return result_.evaluations < options_.max_evaluations && (!keep_going_ || keep_going_()); }

  double loss(const std::vector<CostConstant>& constants) {
    ++result_.evaluations;
    try {
      const std::vector<std::vector<double>> predicted = evaluator_.predict(constants);
      double sum = 0;
      for (std::size_t i = 0; i < problems_.size(); ++i) sum += model_loss(predicted[i], problems_[i].configs);
      return sum / static_cast<double>(problems_.size());
    } catch (const Error&) {
      return std::numeric_limits<double>::infinity();  // these constants cannot be computed with
    }
  }

  // Moves one constant up or down for as long as that helps.
  bool improve(std::size_t index, double step) {
    for (const double factor : {step, 1 / step}) {
      bool moved = false;
      while (may_go_on() && move(index, factor)) moved = true;
      if (moved) return true;
    }
    return false;
  }

  bool move(std::size_t index, double factor) {
    const std::int64_t here = result_.constants[index].value;
    std::int64_t there = std::llround(static_cast<double>(here) * factor);
    if (there == here) there += factor > 1 ? 1 : -1;
    const auto first = static_cast<double>(start_[index].value);
    const auto wanted = static_cast<double>(there);
    if (there < 1 || wanted > first * kFurthest || wanted < first / kFurthest) return false;
    std::vector<CostConstant> constants = result_.constants;
    constants[index].value = there;
    const double moved = loss(constants);
    if (moved > result_.loss_after - kLeastGain) return false;
    result_.loss_after = moved;
    result_.constants = std::move(constants);
    return true;
  }

  std::vector<CostConstant> start_;
  const std::vector<MeasuredProblem>& problems_;
  ModelEvaluator evaluator_;
  const FitOptions& options_;
  const std::function<bool()>& keep_going_;
  FitResult result_;
};

}  // namespace

double model_loss(const std::vector<double>& predicted, const std::vector<MeasuredConfig>& measured) {
  double best = std::numeric_limits<double>::infinity();
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < measured.size(); ++i) {
    best = std::min(best, measured[i].us);
    lowest = std::min(lowest, predicted[i]);
  }
  double chances = 0;
  double regret = 0;
  double weights = 0;
  double mean = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const double chance = std::exp(-std::log(predicted[i] / lowest) / kTossUp);
    chances += chance;
    regret += chance * std::log(measured[i].us / best);
    const double weight = std::pow(best / measured[i].us, 2);
    weights += weight;
    mean += weight * std::log(predicted[i] / measured[i].us);
  }
  mean /= weights;
  double squares = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const double weight = std::pow(best / measured[i].us, 2);
    squares += weight * std::pow(std::log(predicted[i] / measured[i].us) - mean, 2);
  }
  return regret / chances + kErrorWeight * std::sqrt(squares / weights) + kScaleWeight * std::abs(mean);
}

FitResult fit_constants(const KernelTemplate& t, const std::vector<MeasuredProblem>& problems,
                        const cuda::DeviceInfo& device, const FitOptions& options,
                        const std::function<bool()>& keep_going) {
  std::vector<MeasuredProblem> sampled;
  for (const MeasuredProblem& each : problems) {
    sampled.push_back({each.problem, sample(each.configs, options.max_configs_per_problem)});
  }
  return Fit(t, sampled, device, options, keep_going).run();
}

}  // namespace kiln::tuner
