#include <gtest/gtest.h>

#include "tuner/bench.h"

namespace kiln {
namespace {

Timing timing(double us, double error) {
  return {.median_us = us,
          .min_us = us - 1,
          .max_us = us + 1,
          .spread = 0.01,
          .batches = 15,
          .error = error,
          .sm_clock_mhz = static_cast<int>(us * 10)};
}

BenchRow row(double us, double peer_us) {
  BenchRow row;
  row.kiln = timing(us, us / 1e6);
  row.peers["cublaslt_best"] = timing(peer_us, 0);
  return row;
}

TEST(BenchPassesTest, FiguresAreMediansOverThePasses) {
  const BenchRow merged = merge_passes({row(100, 120), row(130, 90), row(110, 105)});
  ASSERT_TRUE(merged.kiln);
  EXPECT_DOUBLE_EQ(merged.kiln->median_us, 110);
  EXPECT_DOUBLE_EQ(merged.kiln->spread, 30.0 / 110);
  EXPECT_DOUBLE_EQ(merged.kiln->min_us, 99);
  EXPECT_DOUBLE_EQ(merged.kiln->max_us, 131);
  EXPECT_DOUBLE_EQ(merged.kiln->error, 130 / 1e6);
  EXPECT_EQ(merged.kiln->batches, 45);
  EXPECT_EQ(merged.kiln->sm_clock_mhz, 1100);
  EXPECT_DOUBLE_EQ(merged.peers.at("cublaslt_best").median_us, 105);
}

TEST(BenchPassesTest, OnePassStaysAsItIs) {
  const BenchRow merged = merge_passes({row(100, 120)});
  EXPECT_DOUBLE_EQ(merged.kiln->spread, 0.01);
}

TEST(BenchPassesTest, AFailureIsTheRows) {
  BenchRow bad;
  bad.failure = Failure{.kind = FailureKind::wrong_result, .message = "no", .log = {}};
  const BenchRow merged = merge_passes({row(100, 120), bad, row(110, 105)});
  EXPECT_FALSE(merged.kiln);
  ASSERT_TRUE(merged.failure);
  EXPECT_EQ(merged.failure->message, "no");
  EXPECT_TRUE(merged.peers.empty()) << "the peer was not timed in each pass";
}

TEST(BenchPassesTest, ForeignWorkInOnePassSpoilsTheRow) {
  BenchRow disturbed = row(100, 120);
  disturbed.foreign_work = true;
  disturbed.warnings = {"others computed"};
  const BenchRow merged = merge_passes({disturbed, row(100, 120)});
  EXPECT_TRUE(merged.foreign_work);
  EXPECT_EQ(merged.warnings, std::vector<std::string>{"others computed"});
}

}  // namespace
}  // namespace kiln
