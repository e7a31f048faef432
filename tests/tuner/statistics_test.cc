#include "tuner/measure/statistics.h"

#include <array>

#include <gtest/gtest.h>

namespace kiln::tuner {
namespace {

TEST(StatisticsTest, SummarizesByMedianAndQuartiles) {
  const std::array samples{14.0, 10.0, 11.0, 12.0, 13.0};
  const Timing timing = summarize(samples);
  EXPECT_DOUBLE_EQ(timing.median_us, 12);
  EXPECT_DOUBLE_EQ(timing.min_us, 10);
  EXPECT_DOUBLE_EQ(timing.max_us, 14);
  EXPECT_DOUBLE_EQ(timing.spread, 2.0 / 12);
  EXPECT_EQ(timing.batches, 5);
}

TEST(StatisticsTest, TheMedianOfAnEvenCountLiesBetween) {
  const std::array samples{1.0, 2.0, 3.0, 10.0};
  EXPECT_DOUBLE_EQ(summarize(samples).median_us, 2.5);
}

TEST(StatisticsTest, NoSamplesGiveZeros) { EXPECT_EQ(summarize({}).batches, 0); }

TEST(StatisticsTest, ARoundIsDirtyWhenItsClockFallsBelowItsNeighbours) {
  EXPECT_EQ(dirty_rounds(std::array{1980, 1980, 1700, 1980, 1980}), (std::vector<std::size_t>{2}));
  EXPECT_EQ(dirty_rounds(std::array{1500, 1980, 1980}), (std::vector<std::size_t>{0}));
}

TEST(StatisticsTest, ASlowDriftOrAnUnknownClockIsNotDirty) {
  EXPECT_TRUE(dirty_rounds(std::array{1980, 1920, 1860, 1800, 1750}).empty());
  EXPECT_TRUE(dirty_rounds(std::array{0, 1980, 0, 1980}).empty());
  EXPECT_TRUE(dirty_rounds(std::array{1980}).empty());
}

}  // namespace
}  // namespace kiln::tuner
