#include "tuner/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/error.h"

namespace kiln::tuner {
namespace {

using testing::HasSubstr;

Suite parse(const std::string& text) {
  static const TemplateSet templates;
  return parse_suite(text, "some/small.toml", templates);
}

// What reading `text` complains of.
std::string complaint(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Suite, TakesItsNameFromTheFile) {
  const Suite suite = parse("op = 'gemm'\nproblems = ['m=1,n=2,k=3,dtype=bf16']");
  EXPECT_EQ(suite.name, "small");
  EXPECT_EQ(suite.op, "gemm");
}

TEST(Suite, StringsAndTablesMeanTheSameProblem) {
  const Suite strings = parse("op = 'gemm'\nproblems = ['m=1,n=2,k=3,dtype=bf16']");
  const Suite tables = parse("op = 'gemm'\nproblems = [{ m = 1, N = 2, k = 3, dtype = 'bf16', weight = 2.5 }]");
  ASSERT_EQ(tables.problems.size(), 1U);
  EXPECT_EQ(strings.problems[0].problem, tables.problems[0].problem);
  EXPECT_EQ(strings.problems[0].weight, 1);
  EXPECT_EQ(tables.problems[0].weight, 2.5);
}

TEST(Suite, AProblemsOwnFieldsWinOverTheDefaults) {
  const Suite suite =
      parse("op = 'gemm'\ndefaults = { dtype = 'bf16', k = 7 }\nproblems = ['m=1,n=2', 'm=1,n=2,k=3,dtype=f16']");
  EXPECT_EQ(suite.problems[0].problem.dims.at("K"), 7);
  EXPECT_EQ(suite.problems[1].problem.dims.at("K"), 3);
  EXPECT_EQ(suite.problems[1].problem.dtypes.at("a"), DType::f16);
}

TEST(Suite, FillsInEveryDefault) {
  const Suite suite = parse("op = 'gemm'\nproblems = ['m=1,n=2,k=3,dtype=bf16']");
  EXPECT_EQ(suite.problems[0].problem.dims.at("lda"), 3);
  EXPECT_EQ(suite.problems[0].problem.dims.at("batch"), 1);
}

TEST(Suite, ComplaintsNameFilePlaceAndWhatIsAllowed) {
  EXPECT_THAT(complaint("op = "), HasSubstr("some/small.toml: line 1"));
  EXPECT_THAT(complaint("problems = ['m=1']"), HasSubstr("op: the name of an op"));
  EXPECT_THAT(complaint("op = 'gemm'"), HasSubstr("problems: a list of at least one"));
  EXPECT_THAT(complaint("op = 'gemm'\nproblems = []"), HasSubstr("problems: a list of at least one"));
  EXPECT_THAT(complaint("op = 'gem'\nproblems = ['m=1']"), HasSubstr("gemm"));
  EXPECT_THAT(complaint("op = 'gemm'\nproblem = ['m=1']"), HasSubstr("problem: unknown key"));
  EXPECT_THAT(complaint("op = 'gemm'\nproblems = [7]"), HasSubstr("problems[0]: a string"));
  EXPECT_THAT(complaint("op = 'gemm'\nproblems = ['m=1,n=2,k=3,dtype=bf16', 'm=1,n=2']"), HasSubstr("problems[1]: "));
  EXPECT_THAT(complaint("op = 'gemm'\nproblems = [{ m = 1.5, n = 2, k = 3 }]"), HasSubstr("problems[0].m: an integer"));
  EXPECT_THAT(complaint("op = 'gemm'\nproblems = [{ m = 1, n = 2, k = 3, dtype = 'bf16', weight = 0 }]"),
              HasSubstr("problems[0].weight: a number above 0"));
  EXPECT_THAT(complaint("op = 'gemm'\ndefaults = 'bf16'\nproblems = ['m=1']"), HasSubstr("defaults: a table"));
}

TEST(Suite, AProblemGivenTwiceIsRefused) {
  EXPECT_THAT(complaint("op = 'gemm'\ndefaults = { dtype = 'bf16' }\nproblems = ['m=1,n=2,k=3', 'k=3,n=2,m=1']"),
              HasSubstr("problems[1]: the same problem as problems[0]"));
}

TEST(Suite, AnEntryMayBeARange) {
  const Suite suite = parse(
      "op = 'gemm'\ndefaults = { dtype = 'bf16' }\n"
      "problems = ['m=1..8192,n=64,k=32', { m = 16, n = '8..64', k = 32, weight = 3 }, 'm=1,n=2,k=3']");
  ASSERT_EQ(suite.ranges.size(), 2U);
  EXPECT_EQ(suite.ranges[0].range.dim, "M");
  EXPECT_EQ(suite.ranges[0].range.last, 8192);
  EXPECT_EQ(suite.ranges[1].range.dim, "N");
  EXPECT_EQ(suite.ranges[1].range.first, 8);
  EXPECT_EQ(suite.ranges[1].weight, 3);
  EXPECT_EQ(suite.problems.size(), 1U);
  EXPECT_THAT(complaint("op = 'gemm'\nproblems = ['m=8..1,n=2,k=3,dtype=bf16']"),
              HasSubstr("problems[0]: range M=8..1"));
  EXPECT_THAT(complaint("op = 'gemm'\nproblems = ['m=1..8,n=2,dtype=bf16']"),
              HasSubstr("problems[0]: op gemm needs dim 'K'"));
}

TEST(Suite, AMissingFileIsNotFound) {
  const TemplateSet templates;
  try {
    read_suite("nowhere/none.toml", templates);
    FAIL() << "a missing file was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.what(), HasSubstr("none.toml"));
  }
}

}  // namespace
}  // namespace kiln::tuner
