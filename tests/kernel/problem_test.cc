#include "kiln/problem.h"

#include <gtest/gtest.h>

#include "kiln/error.h"

namespace kiln {
namespace {

Problem gemm() {
  return Problem{.op = "gemm",
                 .dims = {{"M", 128}, {"N", -7}, {"K", 64}, {"lda", std::int64_t{1} << 40}},
                 .dtypes = {{"a", bf16}, {"d", f32}},
                 .choices = {{"b_layout", "col"}, {"a_layout", "row"}},
                 .alignments = {{"a", 16}, {"d", 2}}};
}

std::string message_of(std::string_view text) {
  try {
    parse_canonical_problem(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Problem, CanonicalTextListsFieldsInAFixedOrder) {
  EXPECT_EQ(gemm().canonical(),
            "gemm K=64 M=128 N=-7 lda=1099511627776 | a=bf16 d=f32 | a_layout=row b_layout=col | align_a=16 align_d=2");
}

TEST(Problem, AProblemWithNothingButAnOpHasACanonicalText) {
  const Problem bare{.op = "norm", .dims = {}, .dtypes = {}, .choices = {}, .alignments = {}};
  EXPECT_EQ(bare.canonical(), "norm | | |");
  EXPECT_EQ(parse_canonical_problem(bare.canonical()), bare);
}

TEST(Problem, ParsingTheCanonicalTextGivesTheProblemBack) {
  EXPECT_EQ(parse_canonical_problem(gemm().canonical()), gemm());
}

TEST(Problem, EveryFieldChangesTheDigest) {
  Problem changed = gemm();
  changed.alignments["d"] = 4;
  EXPECT_NE(changed.digest(), gemm().digest());
  changed = gemm();
  changed.choices["a_layout"] = "col";
  EXPECT_NE(changed.digest(), gemm().digest());
  changed = gemm();
  changed.dtypes["d"] = bf16;
  EXPECT_NE(changed.digest(), gemm().digest());
  EXPECT_EQ(gemm().digest().size(), 64u);
}

TEST(Problem, AValueThatWouldBlurTwoProblemsIsRefused) {
  Problem problem = gemm();
  problem.choices["a_layout"] = "row b_layout=col";
  EXPECT_THROW(problem.canonical(), Error);
  problem = gemm();
  problem.dims["M | "] = 1;
  EXPECT_THROW(problem.canonical(), Error);
}

TEST(Problem, ABadCanonicalTextIsRefusedByNamingThePiece) {
  EXPECT_NE(message_of("").find("name of an op"), std::string::npos);
  EXPECT_NE(message_of("gemm M=12x | | |").find("'M=12x'"), std::string::npos);
  EXPECT_NE(message_of("gemm M=1 M=2 | | |").find("'M' is given twice"), std::string::npos);
  EXPECT_NE(message_of("gemm M=1 | a=bf17 | |").find("bf16"), std::string::npos);
  EXPECT_NE(message_of("gemm M=1 | a=bf16 |").find("fewer than four"), std::string::npos);
  EXPECT_NE(message_of("gemm M=1 | | | |").find("more than four"), std::string::npos);
  EXPECT_NE(message_of("gemm M=1 | | | a=16").find("align_"), std::string::npos);
  EXPECT_NE(message_of("gemm M=99999999999999999999 | | |").find("integer"), std::string::npos);
}

TEST(ProblemText, FieldsAreReadWhateverTheirCaseAndSpacing) {
  const ProblemText text = parse_problem_text("gemm", " M=4096, n = 8,dtype=bf16 ");
  EXPECT_EQ(text.op, "gemm");
  EXPECT_EQ(text.fields, (std::map<std::string, std::string>{{"m", "4096"}, {"n", "8"}, {"dtype", "bf16"}}));
  EXPECT_TRUE(parse_problem_text("gemm", "").fields.empty());
}

TEST(ProblemText, ABadPieceIsNamed) {
  for (const char* text : {"m=1,,n=2", "m", "m=", "=3", "m=1,M=2", "m=1 2"}) {
    EXPECT_THROW(parse_problem_text("gemm", text), Error) << text;
  }
  try {
    parse_problem_text("gemm", "m=1,nonsense");
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'nonsense'"), std::string::npos);
  }
}

}  // namespace
}  // namespace kiln
