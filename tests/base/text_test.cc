#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Text, JoinPutsTheSeparatorBetween) {
  EXPECT_EQ(join({"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({}, ", "), "");
}

TEST(Text, SplitTakesBlanksOffEachPiece) {
  EXPECT_THAT(split(" a : b\t:c ", ':'), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split("a", ':'), ElementsAre("a"));
}

TEST(Text, SplitKeepsEmptyPiecesButAnEmptyTextHasNone) {
  EXPECT_THAT(split("a::b:", ':'), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split(":", ':'), ElementsAre("", ""));
  EXPECT_THAT(split("", ':'), IsEmpty());
  EXPECT_THAT(split("  \n", ':'), IsEmpty());
}

TEST(Text, TrimTakesBlanksOffBothEndsOnly) {
  EXPECT_EQ(trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(trim("a"), "a");
  EXPECT_EQ(trim(" \t "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, LowerChangesLettersOnly) { EXPECT_EQ(lower("BF16_x-Y"), "bf16_x-y"); }

TEST(DidYouMean, OffersNamesOfAFewLettersDifference) {
  EXPECT_EQ(did_you_mean("sm90_gem", {"sm80_gemm", "sm90_gemm"}), "; did you mean 'sm90_gemm' or 'sm80_gemm'?");
  EXPECT_EQ(did_you_mean("tamplate", {"template", "kernel"}), "; did you mean 'template'?");
}

TEST(DidYouMean, SaysNothingWhereNothingIsNear) {
  EXPECT_EQ(did_you_mean("attention", {"gemm", "rmsnorm"}), "");
  EXPECT_EQ(did_you_mean("x", {}), "");
}

TEST(DidYouMean, IgnoresCase) { EXPECT_EQ(did_you_mean("BATCH", {"batch"}), "; did you mean 'batch'?"); }

TEST(DidYouMean, OffersTheThreeNearestNearestFirst) {
  EXPECT_EQ(did_you_mean("parameters", {"aarametexx", "barameterx", "parameterx", "parameters_", "params"}),
            "; did you mean 'parameterx' or 'parameters_' or 'barameterx'?");
}

}  // namespace
}  // namespace kiln
