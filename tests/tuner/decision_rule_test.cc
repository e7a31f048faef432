#include "tuner/decision_rule.h"

#include <array>

#include <gtest/gtest.h>

namespace kiln::tuner {
namespace {

Timing timing(double us, double spread) {
  Timing result;
  result.median_us = us;
  result.spread = spread;
  return result;
}

TEST(DecisionRuleTest, TheFastestWinsWhenTheMeasurementTellsThemApart) {
  const std::array finalists{timing(10.1, 0.001), timing(10.0, 0.001), timing(12, 0.001)};
  EXPECT_EQ(choose_winner(finalists, std::nullopt, 0.02), 1U);
}

TEST(DecisionRuleTest, TiesGoToTheFixedOrder) {
  const std::array finalists{timing(12, 0.01), timing(10.03, 0.01), timing(10.0, 0.01)};
  EXPECT_EQ(choose_winner(finalists, std::nullopt, 0.02), 1U);
}

TEST(DecisionRuleTest, ANoisyMeasurementGivesLittleAwayToTheFixedOrder) {
  const std::array finalists{timing(10.1, 0.2), timing(10.0, 0.2)};
  EXPECT_EQ(choose_winner(finalists, std::nullopt, 0.02), 1U);
}

TEST(DecisionRuleTest, TheIncumbentStaysWithinTheNoise) {
  const std::array finalists{timing(10.0, 0.001), timing(10.15, 0.001)};
  EXPECT_EQ(choose_winner(finalists, 1, 0.02), 1U);
  EXPECT_EQ(choose_winner(finalists, 1, 0.01), 0U);
}

}  // namespace
}  // namespace kiln::tuner
