#include "runtime/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/sample_template.h"

namespace kiln {
namespace {

using testing::ElementsAre;

class DispatchTest : public testing::Test {
 protected:
  OpSpec op = mix_op();
  Problem given{.op = "mix", .dims = {{"N", 64}}, .dtypes = {{"x", bf16}}, .choices = {}, .alignments = {}};

  static Problem tuned(std::int64_t m, std::int64_t n = 64, DType x = bf16) { return mix_problem(m, n, x); }
};

TEST_F(DispatchTest, WithNothingKnownPowersOfTwoAndTheEndAreThePoints) {
  EXPECT_THAT(dispatch_points(op, given, {"M", 0, 10}, {}), ElementsAre(1, 2, 4, 8, 10));
  EXPECT_THAT(dispatch_points(op, given, {"M", 5, 16}, {}), ElementsAre(8, 16));
  EXPECT_THAT(dispatch_points(op, given, {"M", 1, 1}, {}), ElementsAre(1));
}

TEST_F(DispatchTest, TunedExtentsOfThisVeryProblemArePoints) {
  const std::vector<Problem> known{tuned(6), tuned(7, 128), tuned(5, 64, f32), tuned(99), tuned(3)};
  EXPECT_THAT(dispatch_points(op, given, {"M", 3, 10}, known), ElementsAre(3, 4, 6, 8, 10));
}

TEST_F(DispatchTest, OtherDimsMayBeTheOpenOne) {
  Problem wide = given;
  wide.dims = {{"M", 64}};
  const std::vector<Problem> known{tuned(64, 6), tuned(32, 7)};
  EXPECT_THAT(dispatch_points(op, wide, {"N", 1, 8}, known), ElementsAre(1, 2, 4, 6, 8));
}

TEST_F(DispatchTest, ExtentsFillInWhatFollowsThem) {
  Problem column = given;
  column.choices["layout"] = "col";
  EXPECT_EQ(with_extent(op, column, "M", 100).dims.at("ld"), 100);
}

TEST_F(DispatchTest, WhatIsSetAtLaunchIsNotCompiled) {
  ManifestDraft draft;
  draft.params = "T = [32, 64]\nSPLIT = { values = [1, 2], launch = true }";
  draft.fallback = "T = 32\nSPLIT = 1";
  const auto t = draft.build();
  EXPECT_EQ(compiled_part(*t, {{"T", 32}, {"SPLIT", 1}}), compiled_part(*t, {{"T", 32}, {"SPLIT", 2}}));
  EXPECT_NE(compiled_part(*t, {{"T", 32}, {"SPLIT", 1}}), compiled_part(*t, {{"T", 64}, {"SPLIT", 1}}));
}

}  // namespace
}  // namespace kiln
