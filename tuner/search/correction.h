// What the first measurements say of the cost model's errors. The logarithm of measured over predicted time is taken
// for a Gaussian process over the parameters: candidates that share values share errors, so a few measurements re-rank
// a whole space. (Kriging of a model's residuals, with a kernel that counts equal values.) Thread-safe once made.
#pragma once

#include <vector>

#include "tuner/search/search_space.h"

namespace kiln::tuner {

class History;

class Correction {
 public:
  // From every point tried so far; a failure counts as a time far above its prediction. `space` must outlive it.
  Correction(const SearchSpace& space, const History& history);

  // The time expected of a point, lowered by `optimism` standard deviations of what is not known of it. In
  // microseconds, or of no unit before anything was measured and where a template has no cost model.
  double expected_us(std::size_t point, double optimism) const;

 private:
  double base(std::size_t point) const;

  const SearchSpace& space_;
  std::vector<std::size_t> tried_;
  std::vector<double> factor_;   // the Cholesky factor of the tried points' covariance, row by row
  std::vector<double> weights_;  // covariance⁻¹ · residuals
  double unpredicted_ = 0;       // the base of a point without a prediction
};

}  // namespace kiln::tuner
