// How well predictions rank what was measured. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace kiln::tuner {

// The number of candidates that a model is asked to name.
constexpr std::size_t kTopCount = 16;

struct RankScores {
  std::size_t count = 0;            // measured configurations
  std::optional<double> spearman;   // rank correlation of predictions with times; empty for fewer than three
  std::optional<double> recall;     // the share of the 16 fastest that are among the 16 predicted fastest, and …
  std::optional<bool> best_in_top;  // … whether the fastest of all is; both empty for 16 configurations or fewer
  double first_choice = 0;  // best time ÷ time of the first choice: 1 when the model's favourite is the fastest
};

// REQUIRES: as many predictions as times, at least one, all above 0. Where several share the lowest prediction, any of
// them could be chosen, and first_choice is the mean over them. Equal predictions at the edge of the 16 are taken in
// the given order.
RankScores rank_scores(std::span<const double> predicted, std::span<const double> measured);

// Spearman's coefficient, equal values sharing the mean of their ranks; 0 when one side is constant.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace kiln::tuner
