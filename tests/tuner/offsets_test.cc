#include "tuner/measure/offsets.h"

#include <algorithm>

#include <gmock/gmock.h>

namespace kiln::tuner {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::int64_t> lengths(const std::vector<std::int64_t>& offsets) {
  std::vector<std::int64_t> result;
  for (std::size_t i = 1; i < offsets.size(); ++i) result.push_back(offsets[i] - offsets[i - 1]);
  return result;
}

TEST(RandomOffsets, RunFromZeroToTheTotalInLengthsThatAreAllowed) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (const std::int64_t total : {0, 1, 7, 99, 100, 350, 699, 700}) {
      const std::vector<std::int64_t> offsets = random_offsets(8, {.total = total, .largest = 100}, seed);
      ASSERT_EQ(offsets.size(), 8U);
      EXPECT_EQ(offsets.front(), 0);
      EXPECT_EQ(offsets.back(), total);
      for (const std::int64_t length : lengths(offsets)) {
        EXPECT_GE(length, 0) << "seed " << seed << " total " << total;
        EXPECT_LE(length, 100) << "seed " << seed << " total " << total;
      }
    }
  }
}

TEST(RandomOffsets, HaveAnEmptyRunAndALargestWhereTheTotalAllowsIt) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto found = lengths(random_offsets(5, {.total = 220, .largest = 100}, seed));
    EXPECT_THAT(found, Contains(0)) << seed;
    EXPECT_THAT(found, Contains(100)) << seed;
  }
}

TEST(RandomOffsets, AreTheSameForASeedAndOthersForAnother) {
  const OffsetBounds bounds{.total = 5000, .largest = 1000};
  EXPECT_EQ(random_offsets(11, bounds, 3), random_offsets(11, bounds, 3));
  EXPECT_NE(random_offsets(11, bounds, 3), random_offsets(11, bounds, 4));
}

TEST(RandomOffsets, FavourNoPlace) {
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const auto found = lengths(random_offsets(7, {.total = 300, .largest = 100}, seed));
    first += found.front();
    last += found.back();
  }
  EXPECT_NEAR(static_cast<double>(first) / 1000, 50, 5);
  EXPECT_NEAR(static_cast<double>(last) / 1000, 50, 5);
}

TEST(RandomOffsets, EndEarlyWhereTheRunsCannotBeSoLong) {
  EXPECT_THAT(random_offsets(4, {.total = 1000, .largest = 10}, 1), ElementsAre(0, 10, 20, 30));
}

TEST(RandomOffsets, OfNothingAreNothing) {
  EXPECT_THAT(random_offsets(0, {.total = 10, .largest = 10}, 1), IsEmpty());
  EXPECT_THAT(random_offsets(1, {.total = 10, .largest = 10}, 1), ElementsAre(0));
  EXPECT_THAT(random_offsets(2, {.total = 7, .largest = 10}, 1), ElementsAre(0, 7));
  EXPECT_THAT(random_offsets(5, {.total = -3, .largest = 10}, 1), Each(0));
  EXPECT_THAT(random_offsets(5, {.total = 10, .largest = 0}, 1), Each(0));
}

}  // namespace
}  // namespace kiln::tuner
