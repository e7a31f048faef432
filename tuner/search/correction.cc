#include "tuner/search/correction.h"

#include <algorithm>
#include <cmath>

#include "tuner/search/history.h"

namespace kiln::tuner {
namespace {

// Variances of ln(time ÷ prediction): of the model as a whole, of a template, of single values, of values together, and
// of a measurement and what no parameter explains.
constexpr double kAllVariance = 0.09;
constexpr double kTemplateVariance = 0.04;
constexpr double kValueVariance = 0.5;
constexpr double kTogetherVariance = 0.05;
constexpr double kNoiseVariance = 0.001;
// How much of the last is shared by two that differ in one parameter.
constexpr double kTogetherDecay = 0.7;
// A failure is taken for a time this much (as a logarithm) above the prediction: its like may fail too.
constexpr double kFailureResidual = 0.7;

// Configurations of one template have the same parameters in the same order.
double covariance(const Point& a, const Point& b) {
  if (a.kernel_template != b.kernel_template) return kAllVariance;
  int differing = 0;
  for (auto x = a.config.begin(), y = b.config.begin(); x != a.config.end() && y != b.config.end(); ++x, ++y) {
    differing += x->second != y->second ? 1 : 0;
  }
  const double count = std::max<double>(1, static_cast<double>(a.config.size()));
  return kAllVariance + kTemplateVariance + kValueVariance * (1 - differing / count) +
         kTogetherVariance * std::pow(kTogetherDecay, differing);
}

constexpr double kOwnVariance = kAllVariance + kTemplateVariance + kValueVariance + kTogetherVariance;

// In place: the lower triangle of a symmetric positive matrix of n × n becomes its Cholesky factor.
void factorise(std::vector<double>& matrix, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= matrix[i * n + k] * matrix[j * n + k];
      matrix[i * n + j] = i == j ? std::sqrt(sum) : sum / matrix[j * n + j];
    }
  }
}

// Solves L·x = b in place.
void solve_lower(const std::vector<double>& factor, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= factor[i * n + k] * x[k];
    x[i] /= factor[i * n + i];
  }
}

// Solves Lᵀ·x = b in place.
void solve_upper(const std::vector<double>& factor, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) x[i] -= factor[k * n + i] * x[k];
    x[i] /= factor[i * n + i];
  }
}

}  // namespace

Correction::Correction(const SearchSpace& space, const History& history) : space_(space), tried_(history.tried()) {
  const std::size_t n = tried_.size();
  double sum = 0;
  int finite = 0;
  for (const std::size_t point : tried_) {
    if (!std::isfinite(history.time(point))) continue;
    sum += std::log(history.time(point));
    ++finite;
  }
  unpredicted_ = finite == 0 ? 0 : sum / finite;
  factor_.resize(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    const double us = history.time(tried_[i]);
    weights_.push_back(std::isfinite(us) ? std::log(us) - base(tried_[i]) : kFailureResidual);
    for (std::size_t j = 0; j <= i; ++j) {
      factor_[i * n + j] = covariance(space.points()[tried_[i]], space.points()[tried_[j]]);
    }
    factor_[i * n + i] += kNoiseVariance;
  }
  factorise(factor_, n);
  solve_lower(factor_, weights_);
  solve_upper(factor_, weights_);
}

double Correction::base(std::size_t point) const {
  const double us = space_.points()[point].predicted_us;
  return us > 0 ? std::log(us) : unpredicted_;
}

double Correction::expected_us(std::size_t point, double optimism) const {
  std::vector<double> shared(tried_.size());
  double mean = base(point);
  for (std::size_t i = 0; i < tried_.size(); ++i) {
    shared[i] = covariance(space_.points()[point], space_.points()[tried_[i]]);
    mean += shared[i] * weights_[i];
  }
  if (optimism > 0) {
    solve_lower(factor_, shared);
    double known = 0;
    for (const double each : shared) known += each * each;
    mean -= optimism * std::sqrt(std::max(0.0, kOwnVariance - known));
  }
  return std::exp(mean);
}

}  // namespace kiln::tuner
