#include "tuner/model/rank.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace kiln::tuner {
namespace {

TEST(RankTest, TheCoefficientIsOneMinusOneAndBetween) {
  EXPECT_DOUBLE_EQ(spearman(std::vector{1.0, 2.0, 9.0}, std::vector{10.0, 20.0, 21.0}), 1);
  EXPECT_DOUBLE_EQ(spearman(std::vector{3.0, 2.0, 1.0}, std::vector{10.0, 20.0, 21.0}), -1);
  // Ranks 0 1 2 3 against 1 0 2 3: 1 − 6·2 / (4·15).
  EXPECT_DOUBLE_EQ(spearman(std::vector{1.0, 2.0, 3.0, 4.0}, std::vector{2.0, 1.0, 3.0, 4.0}), 0.8);
}

TEST(RankTest, EqualValuesShareARankAndAConstantSaysNothing) {
  // Ranks 0.5 0.5 2 against 0 1 2.
  EXPECT_NEAR(spearman(std::vector{1.0, 1.0, 2.0}, std::vector{1.0, 2.0, 3.0}), 0.8660254, 1e-6);
  EXPECT_EQ(spearman(std::vector{1.0, 1.0, 1.0}, std::vector{1.0, 2.0, 3.0}), 0);
}

TEST(RankTest, TheFirstChoiceIsTheMeanOverThosePredictedAlike) {
  EXPECT_DOUBLE_EQ(rank_scores(std::vector{2.0, 1.0}, std::vector{10.0, 20.0}).first_choice, 0.5);
  EXPECT_DOUBLE_EQ(rank_scores(std::vector{1.0, 1.0}, std::vector{10.0, 20.0}).first_choice, 0.75);
}

TEST(RankTest, RecallNeedsMoreThanSixteen) {
  std::vector<double> times(16);
  std::iota(times.begin(), times.end(), 1.0);
  EXPECT_FALSE(rank_scores(times, times).recall);
  times.resize(32);
  std::iota(times.begin(), times.end(), 1.0);
  EXPECT_DOUBLE_EQ(*rank_scores(times, times).recall, 1);
  EXPECT_TRUE(*rank_scores(times, times).best_in_top);

  // The model puts the four fastest last.
  std::vector<double> predicted = times;
  for (std::size_t i = 0; i < 4; ++i) predicted[i] = 100;
  const RankScores scores = rank_scores(predicted, times);
  EXPECT_DOUBLE_EQ(*scores.recall, 12.0 / 16);
  EXPECT_FALSE(*scores.best_in_top);
  EXPECT_DOUBLE_EQ(scores.first_choice, 1.0 / 5);
}

}  // namespace
}  // namespace kiln::tuner
