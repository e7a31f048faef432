#include "base/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/error.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kLargest = (std::int64_t{1} << 53) - 1;

Scope sample_scope() {
  Scope scope;
  scope.set("M", 100);
  scope.set("N", 7);
  scope.set("zero", 0);
  scope.set("neg", -7);
  scope.set("largest", kLargest);
  return scope;
}

std::int64_t value_of(const std::string& text) { return Expression(text).evaluate(sample_scope()); }

std::string refusal_of(const std::string& text) {
  return message_of(ErrorCode::invalid_expression, [&] { static_cast<void>(Expression(text)); });
}

std::string failure_of(const std::string& text) {
  const Expression expression(text);
  return message_of(ErrorCode::invalid_expression, [&] { static_cast<void>(expression.evaluate(sample_scope())); });
}

TEST(Expression, ComputesWithTheFourOperationsAndTheRemainder) {
  EXPECT_EQ(value_of("M + N"), 107);
  EXPECT_EQ(value_of("N - M"), -93);
  EXPECT_EQ(value_of("M * N"), 700);
  EXPECT_EQ(value_of("M / N"), 14);
  EXPECT_EQ(value_of("M % N"), 2);
  EXPECT_EQ(value_of("-N + +M"), 93);
}

TEST(Expression, DivisionTruncatesTowardsZeroAndTheRemainderHasTheDividendsSign) {
  EXPECT_EQ(value_of("neg / 2"), -7 / 2);
  EXPECT_EQ(value_of("neg % 2"), -7 % 2);
  EXPECT_EQ(value_of("N / (0 - 2)"), 7 / -2);
  EXPECT_EQ(value_of("N % (0 - 2)"), 7 % -2);
}

TEST(Expression, MultiplicationBindsTighterThanAdditionAndAllThatTighterThanComparison) {
  EXPECT_EQ(value_of("1 + 2 * 3"), 7);
  EXPECT_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(value_of("2 + 3 < 2 * 3"), 1);
  EXPECT_EQ(value_of("10 - 4 - 3"), 3);
  EXPECT_EQ(value_of("100 / 5 / 2"), 10);
  EXPECT_EQ(value_of("100 / 5 * 2"), 40);
  EXPECT_EQ(value_of("7 * 10 % 4"), 2);
  EXPECT_EQ(value_of("-2 * 3 + 1"), -5);
}

TEST(Expression, AndBindsTighterThanOrAndTheConditionalLoosest) {
  EXPECT_EQ(value_of("1 || 0 && 0"), 1);
  EXPECT_EQ(value_of("(1 || 0) && 0"), 0);
  EXPECT_EQ(value_of("0 && 0 || 1"), 1);
  EXPECT_EQ(value_of("N > 5 && M > 5 ? N + 1 : M + 1"), 8);
  EXPECT_EQ(value_of("zero ? 1 : N ? 2 : 3"), 2);
  EXPECT_EQ(value_of("1 + (zero ? 10 : 20) * 2"), 41);
}

TEST(Expression, ComparisonsAndLogicAnswerOneOrZero) {
  EXPECT_EQ(value_of("N == 7"), 1);
  EXPECT_EQ(value_of("N != 7"), 0);
  EXPECT_EQ(value_of("N < M"), 1);
  EXPECT_EQ(value_of("N <= 7"), 1);
  EXPECT_EQ(value_of("N > 7"), 0);
  EXPECT_EQ(value_of("N >= 8"), 0);
  EXPECT_EQ(value_of("M && N"), 1);
  EXPECT_EQ(value_of("zero || zero"), 0);
}

TEST(Expression, CeilDivRoundsUp) {
  EXPECT_EQ(value_of("ceil_div(M, N)"), 15);
  EXPECT_EQ(value_of("ceil_div(98, N)"), 14);
  EXPECT_EQ(value_of("ceil_div(0, N)"), 0);
  EXPECT_EQ(value_of("ceil_div(largest, 2)"), std::int64_t{1} << 52);
}

TEST(Expression, AlignGoesToTheNextMultiple) {
  EXPECT_EQ(value_of("align(M, 64)"), 128);
  EXPECT_EQ(value_of("align(128, 64)"), 128);
  EXPECT_EQ(value_of("align(0, 64)"), 0);
}

TEST(Expression, MinAndMaxTakeAnyNumberOfValues) {
  EXPECT_EQ(value_of("min(M)"), 100);
  EXPECT_EQ(value_of("min(M, N)"), 7);
  EXPECT_EQ(value_of("min(M, N, zero, neg)"), -7);
  EXPECT_EQ(value_of("max(N, M, 3)"), 100);
}

TEST(Expression, Log2RoundsDownExactly) {
  EXPECT_EQ(value_of("log2(1)"), 0);
  EXPECT_EQ(value_of("log2(2)"), 1);
  EXPECT_EQ(value_of("log2(7)"), 2);
  EXPECT_EQ(value_of("log2(8)"), 3);
  EXPECT_EQ(value_of("log2(largest)"), 52);
  EXPECT_EQ(value_of("log2(largest / 2 + 1)"), 52);
  EXPECT_EQ(value_of("log2(largest / 2)"), 51);
  EXPECT_THAT(failure_of("log2(zero)"), HasSubstr("log2 of a value below 1"));
  EXPECT_THAT(failure_of("log2(neg)"), HasSubstr("log2 of a value below 1"));
}

TEST(Expression, DivisionByZeroIsAnErrorThatNamesTheExpression) {
  for (const char* text : {"M / zero", "M % zero", "ceil_div(M, zero)", "align(M, zero)", "1 / 0", "M / (N - 7)"}) {
    EXPECT_THAT(failure_of(text), HasSubstr("'" + std::string(text) + "'"));
    EXPECT_THAT(failure_of(text), HasSubstr("division by zero"));
  }
}

TEST(Expression, ADivisionByZeroThatIsNotChosenDoesNoHarm) {
  EXPECT_EQ(value_of("zero == 0 ? 5 : M / zero"), 5);
  EXPECT_EQ(value_of("zero != 0 ? M % zero : 6"), 6);
}

TEST(Expression, AndAndOrEvaluateBothSides) {
  EXPECT_THAT(failure_of("zero != 0 && M / zero > 1"), HasSubstr("division by zero"));
  EXPECT_THAT(failure_of("zero == 0 || M / zero > 1"), HasSubstr("division by zero"));
}

TEST(Expression, IsExactUpToTheLargestValueItAllows) {
  EXPECT_EQ(value_of("largest"), kLargest);
  EXPECT_EQ(value_of("9007199254740991"), kLargest);
  EXPECT_EQ(value_of("largest - 1 + 1"), kLargest);
  EXPECT_EQ(value_of("0 - largest"), -kLargest);
  EXPECT_EQ(value_of("(largest - 1) / 2"), (kLargest - 1) / 2);
  EXPECT_EQ(value_of("largest / largest"), 1);
  EXPECT_EQ(value_of("(largest - 1) / largest"), 0);
}

TEST(Expression, OverflowIsAnErrorAndNeverARoundedValue) {
  for (const char* text : {"largest + 1", "largest + 2", "0 - largest - 1", "0 - largest - 2", "largest * 2",
                           "largest * largest", "align(largest, 4096)", "9007199254740993", "99999999999999999999"}) {
    EXPECT_THAT(failure_of(text), HasSubstr("2^53")) << text;
  }
}

TEST(Expression, RefusesWhatIsNotInTheLanguageAndSaysWhatIs) {
  for (const char* text : {"",         " ",          "1.5",    "1e3x",        ".5",
                           "0x10",     "M ^ 2",      "M = 2",  "M += 1",      "!M",
                           "~M",       "M & N",      "M | N",  "M << 1",      "sin(M)",
                           "sqrt(M)",  "pow(M, 2)",  "abs(M)", "if(M, 1, 2)", "M +",
                           "* M",      "(M",         "M)",     "M N",         "2 M",
                           "M ? 1",    "min()",      "max()",  "ceil_div(M)", "ceil_div(M, N, 1)",
                           "align(M)", "log2(M, N)", "log2 M", "M[0]",        "'a'",
                           "\"a\"",    "M; N",       "M, N",   "(M, N)",      "π",
                           "M @ N",    "_pi * 2 )",  "M // N"}) {
    EXPECT_THAT(refusal_of(text), HasSubstr("allowed are")) << text;
    EXPECT_THAT(refusal_of(text), HasSubstr("'" + std::string(text) + "'")) << text;
  }
}

TEST(Expression, HasNoConstantsOfItsOwn) { EXPECT_THAT(failure_of("_pi + _e"), HasSubstr("unknown symbol '_e'")); }

TEST(Expression, BlanksDoNotMatter) {
  EXPECT_EQ(value_of("  M\t*(N  +1 ) "), 800);
  EXPECT_EQ(value_of("M*N"), 700);
}

TEST(Expression, ListsTheNamesItReadsSortedAndOnce) {
  EXPECT_THAT(Expression("N * M + N / ceil_div(K, M)").symbols(), ElementsAre("K", "M", "N"));
  EXPECT_TRUE(Expression("1 + 2").symbols().empty());
  EXPECT_THAT(Expression("a ? b : c").symbols(), ElementsAre("a", "b", "c"));
}

TEST(Expression, ASyntaxThatOnlyDividesByZeroForSomeValuesIsSound) {
  EXPECT_NO_THROW(Expression("1 / (N - 1)"));
  EXPECT_NO_THROW(Expression("log2(N - 1)"));
}

TEST(Expression, AnUnknownSymbolIsNamedWithItsNearestNeighbours) {
  Scope scope;
  scope.set("smem_per_block", 1);
  scope.set("smem_per_sm", 1);
  scope.set("M", 1);
  const auto failure = [&](const std::string& text) {
    return message_of(ErrorCode::invalid_expression, [&] { static_cast<void>(Expression(text).evaluate(scope)); });
  };
  EXPECT_THAT(failure("smem_per_blok * 2"), HasSubstr("unknown symbol 'smem_per_blok'; did you mean 'smem_per_block'"));
  EXPECT_THAT(failure("threads"), HasSubstr("unknown symbol 'threads'"));
  EXPECT_THAT(failure("threads"), Not(HasSubstr("did you mean")));
}

TEST(Expression, AConstantReadsBackAsItsText) {
  EXPECT_EQ(Expression(42).evaluate({}), 42);
  EXPECT_EQ(Expression(-42).evaluate({}), -42);
  EXPECT_EQ(Expression(0).text(), "0");
  EXPECT_EQ(Expression(kLargest).evaluate({}), kLargest);
  EXPECT_THAT(message_of(ErrorCode::invalid_expression,
                         [] { static_cast<void>(Expression(std::numeric_limits<std::int64_t>::max()).evaluate({})); }),
              HasSubstr("2^53"));
}

TEST(Scope, RefusesValuesThatItCannotHoldExactly) {
  Scope scope;
  scope.set("x", kLargest);
  scope.set("y", -kLargest);
  EXPECT_EQ(scope.get("x"), kLargest);
  EXPECT_EQ(scope.get("y"), -kLargest);
  for (const std::int64_t value : {kLargest + 1, kLargest + 2, -kLargest - 2, std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_THAT(message_of(ErrorCode::invalid_expression, [&] { scope.set("big", value); }),
                testing::AllOf(HasSubstr("'big' is " + std::to_string(value)), HasSubstr("2^53")));
  }
}

TEST(Scope, AnUnknownNameIsAnErrorAndFindAnswersEmpty) {
  Scope scope;
  scope.set("batch", 2);
  EXPECT_FALSE(scope.find("btch"));
  EXPECT_EQ(scope.find("batch"), 2);
  EXPECT_THAT(message_of(ErrorCode::invalid_expression, [&] { static_cast<void>(scope.get("btch")); }),
              HasSubstr("did you mean 'batch'?"));
}

TEST(Evaluator, FollowsTheScopesValues) {
  Scope scope;
  scope.set("BM", 64);
  scope.set("M", 1000);
  const Evaluator blocks(Expression("ceil_div(M, BM)"), scope);
  EXPECT_EQ(blocks(), 16);
  scope.set("BM", 128);
  EXPECT_EQ(blocks(), 8);
  *scope.slot("M") = 129;
  EXPECT_EQ(blocks(), 2);
  scope.set("BM", 0);
  EXPECT_THAT(message_of(ErrorCode::invalid_expression, [&] { static_cast<void>(blocks()); }),
              HasSubstr("'ceil_div(M, BM)': division by zero"));
  scope.set("BM", 1);
  EXPECT_EQ(blocks(), 129);
}

TEST(Evaluator, NeedsEverySymbolToBeThereFirst) {
  Scope scope;
  EXPECT_THAT(message_of(ErrorCode::invalid_expression, [&] { Evaluator(Expression("BM + 1"), scope); }),
              HasSubstr("unknown symbol 'BM'"));
}

TEST(Evaluator, WorksAfterBeingMoved) {
  Scope scope;
  scope.set("x", 3);
  Evaluator first(Expression("x * x"), scope);
  Evaluator second = std::move(first);
  scope.set("x", 4);
  EXPECT_EQ(second(), 16);
}

}  // namespace
}  // namespace kiln
