#include "kernel/op_spec.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/template_set.h"
#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OpSpecTest : public testing::Test {
 protected:
  OpSpec op = mix_op();
  Problem given{.op = "mix", .dims = {{"M", 8}, {"N", 4}}, .dtypes = {{"x", bf16}}, .choices = {}, .alignments = {}};

  std::string refusal() {
    return message_of(ErrorCode::invalid_argument, [this] { static_cast<void>(complete(op, given)); });
  }
  Problem from_text(const std::string& text) { return problem_from_text(op, parse_problem_text("mix", text)); }
  std::string text_refusal(const std::string& text) {
    return message_of(ErrorCode::invalid_argument, [&] { static_cast<void>(from_text(text)); });
  }
};

TEST_F(OpSpecTest, CompletingFillsInEveryDefault) {
  const Problem problem = complete(op, given);
  EXPECT_EQ(problem.canonical(), "mix M=8 N=4 ld=4 | x=bf16 y=bf16 | layout=row | align_x=16 align_y=16");
}

TEST_F(OpSpecTest, ADefaultMayReadDimsAndChoices) {
  given.choices["layout"] = "col";
  EXPECT_EQ(complete(op, given).dims.at("ld"), 8);
}

TEST_F(OpSpecTest, CompletingTwiceChangesNothing) {
  const Problem once = complete(op, given);
  EXPECT_EQ(complete(op, once), once);
}

TEST_F(OpSpecTest, WhatIsGivenIsKept) {
  given.dims["ld"] = 100;
  given.dtypes["y"] = f32;
  given.choices["layout"] = "col";
  given.alignments["y"] = 128;
  const Problem problem = complete(op, given);
  EXPECT_EQ(problem.dims.at("ld"), 100);
  EXPECT_EQ(problem.dtypes.at("y"), f32);
  EXPECT_EQ(problem.alignments.at("y"), 128);
}

TEST_F(OpSpecTest, TheProblemTakesTheOpsName) {
  given.op = "";
  EXPECT_EQ(complete(op, given).op, "mix");
}

TEST_F(OpSpecTest, ADTypeCopiesAnotherThroughItsMap) {
  given.dtypes["x"] = f16;
  EXPECT_EQ(complete(op, given).dtypes.at("y"), f32);
  given.dtypes["x"] = f32;
  EXPECT_EQ(complete(op, given).dtypes.at("y"), f32);
}

TEST_F(OpSpecTest, AMissingDimIsNamedWithItsRange) {
  given.dims.erase("M");
  EXPECT_THAT(refusal(), HasSubstr("op mix needs dim 'M', an integer ≥ 1"));
}

TEST_F(OpSpecTest, ADimBelowItsMinimumIsNamedWithItsValue) {
  given.dims["M"] = 0;
  EXPECT_THAT(refusal(), HasSubstr("op mix: M is 0; it must be at least 1"));
  given.dims["M"] = -5;
  EXPECT_THAT(refusal(), HasSubstr("M is -5"));
}

TEST_F(OpSpecTest, AMissingDTypeIsNamedWithThoseAllowed) {
  given.dtypes.clear();
  EXPECT_THAT(refusal(), HasSubstr("op mix needs dtype 'x', one of bf16, f16, f32"));
}

TEST_F(OpSpecTest, ADTypeOutsideTheListIsRefusedEvenWhenCopied) {
  given.dtypes["y"] = f16;
  EXPECT_THAT(refusal(), HasSubstr("dtype y is f16; allowed are bf16, f32"));
  given.dtypes = {{"x", DType::i8}};
  EXPECT_THAT(refusal(), HasSubstr("dtype x is i8; allowed are bf16, f16, f32"));
}

TEST_F(OpSpecTest, AChoiceOutsideTheListIsRefused) {
  given.choices["layout"] = "diagonal";
  EXPECT_THAT(refusal(), HasSubstr("layout is 'diagonal'; allowed are row, col"));
}

TEST_F(OpSpecTest, UnknownNamesAreRefusedWithTheirNearestNeighbours) {
  given.dims["Mm"] = 1;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("has no dim 'Mm'; did you mean 'M'"), HasSubstr("it has M, N, ld")));
  given.dims.erase("Mm");
  given.dtypes["z"] = bf16;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("has no dtype 'z'"), HasSubstr("it has x, y")));
  given.dtypes.erase("z");
  given.choices["layuot"] = "row";
  EXPECT_THAT(refusal(), HasSubstr("did you mean 'layout'?"));
  given.choices.clear();
  given.alignments["q"] = 16;
  EXPECT_THAT(refusal(), HasSubstr("has no operand 'q'"));
}

TEST_F(OpSpecTest, AlignmentsArePowersOfTwoFromTheElementTo256) {
  for (const int legal : {2, 4, 16, 256}) {
    given.alignments["x"] = legal;
    EXPECT_NO_THROW(static_cast<void>(complete(op, given))) << legal;
  }
  for (const int illegal : {-16, 0, 1, 3, 24, 512}) {
    given.alignments["x"] = illegal;
    EXPECT_THAT(refusal(), AllOf(HasSubstr("alignment of x is " + std::to_string(illegal) + " bytes"),
                                 HasSubstr("powers of two from the element's 2 to 256")));
  }
}

TEST_F(OpSpecTest, ABrokenRequirementSaysWhyAndWithWhichValues) {
  given.dims["ld"] = 3;
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("the leading dimension must cover a row"), HasSubstr("N=4"), HasSubstr("ld=3")));
}

TEST_F(OpSpecTest, ADimTooLargeToComputeWithIsTheCallersError) {
  given.dims["M"] = std::int64_t{1} << 60;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("op mix"), HasSubstr("'M' is 1152921504606846976")));
}

TEST_F(OpSpecTest, ADefaultThatOverflowsIsTheCallersError) {
  const std::shared_ptr<const OpSpec> gemm = TemplateSet().find_op("gemm");
  Problem huge{.op = "gemm",
               .dims = {{"M", std::int64_t{1} << 30}, {"N", 1}, {"K", std::int64_t{1} << 30}},
               .dtypes = {{"a", bf16}},
               .choices = {},
               .alignments = {}};
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { static_cast<void>(complete(*gemm, huge)); }),
              AllOf(HasSubstr("op gemm"), HasSubstr("2^53")));
}

TEST_F(OpSpecTest, TextNamesAreReadWhateverTheirCase) {
  EXPECT_EQ(from_text("m=8,n=4,X=bf16,LAYOUT=col,LD=9,align_y=64").canonical(),
            "mix M=8 N=4 ld=9 | x=bf16 y=bf16 | layout=col | align_x=16 align_y=64");
}

TEST_F(OpSpecTest, TextMayGiveAllDTypesAndAlignmentsAtOnce) {
  EXPECT_EQ(from_text("m=8,n=4,dtype=f16,align=32").canonical(),
            "mix M=8 N=4 ld=4 | x=f16 y=f32 | layout=row | align_x=32 align_y=32");
}

TEST_F(OpSpecTest, AnAlignmentForAllLeavesWiderElementsAtMultiplesOfTheirSize) {
  EXPECT_EQ(from_text("m=8,n=4,align=2,dtype=f16").canonical(),
            "mix M=8 N=4 ld=4 | x=f16 y=f32 | layout=row | align_x=2 align_y=4");
  EXPECT_THAT(text_refusal("m=8,n=4,dtype=f16,align_y=2"), HasSubstr("alignment of y is 2 bytes"));
}

TEST_F(OpSpecTest, WhatIsGivenByNameWinsOverWhatIsGivenForAll) {
  EXPECT_EQ(from_text("m=8,n=4,dtype=f32,y=bf16,align=32,align_x=8").canonical(),
            "mix M=8 N=4 ld=4 | x=f32 y=bf16 | layout=row | align_x=8 align_y=32");
}

TEST_F(OpSpecTest, ADTypeForAllIsNotDroppedWhereEveryDTypeHasADefault) {
  op.dtypes[0].fallback = f32;
  EXPECT_THAT(text_refusal("m=8,n=4,dtype=bf16"), AllOf(HasSubstr("every dtype has a default"), HasSubstr("x, y")));
  EXPECT_EQ(from_text("m=8,n=4,x=bf16").dtypes.at("x"), bf16);
}

TEST_F(OpSpecTest, OperandsOfAnyCaseCanBeAligned) {
  op.operands[0].name = "X";
  EXPECT_EQ(from_text("m=8,n=4,x=bf16,align_x=64").alignments.at("X"), 64);
}

TEST_F(OpSpecTest, TextThatCannotBeReadIsNamed) {
  EXPECT_THAT(text_refusal("m=8.5,n=4,x=bf16"), HasSubstr("M='8.5' is not a 64-bit integer"));
  EXPECT_THAT(text_refusal("m=many,n=4,x=bf16"), HasSubstr("M='many'"));
  EXPECT_THAT(text_refusal("m=99999999999999999999,n=4,x=bf16"), HasSubstr("M='99999999999999999999'"));
  EXPECT_THAT(text_refusal("m=8,n=4,x=bf17"), AllOf(HasSubstr("x='bf17' is no dtype"), HasSubstr("bf16")));
  EXPECT_THAT(text_refusal("m=8,n=4,dtype=half"), HasSubstr("dtype='half' is no dtype"));
  EXPECT_THAT(text_refusal("m=8,n=4,x=bf16,layuot=col"), HasSubstr("knows no 'layuot'; did you mean 'layout'?"));
  EXPECT_THAT(text_refusal("m=8,n=4,x=bf16,align_q=16"), HasSubstr("no operand 'q'"));
}

TEST_F(OpSpecTest, AnAlignmentOfMoreThan32BitsIsNotCutShort) {
  EXPECT_THAT(text_refusal("m=8,n=4,x=bf16,align=4294967312"), HasSubstr("4294967312"));
  EXPECT_THAT(text_refusal("m=8,n=4,x=bf16,align_x=4294967312"), HasSubstr("4294967312"));
}

TEST_F(OpSpecTest, BindingSetsExactlyTheSymbolsItPromises) {
  Scope scope;
  bind_problem(op, complete(op, given), scope);
  std::vector<std::string> bound;
  for (const auto& [name, value] : scope.values()) bound.push_back(name);
  EXPECT_THAT(problem_symbols(op), testing::UnorderedElementsAreArray(bound));
  EXPECT_EQ(scope.get("M"), 8);
  EXPECT_EQ(scope.get("ld"), 4);
  EXPECT_EQ(scope.get("sizeof_x"), 2);
  EXPECT_EQ(scope.get("x_is_bf16"), 1);
  EXPECT_EQ(scope.get("x_is_f16"), 0);
  EXPECT_EQ(scope.get("layout_is_row"), 1);
  EXPECT_EQ(scope.get("layout_is_col"), 0);
  EXPECT_EQ(scope.get("align_x"), 16);
}

TEST_F(OpSpecTest, FlopsAndBytesFollowTheOp) {
  given.dtypes["y"] = f32;
  const Problem problem = complete(op, given);
  EXPECT_EQ(flops(op, problem), 64);
  EXPECT_EQ(bytes(op, problem), 32 * 6);
}

TEST_F(OpSpecTest, DistanceIsTheRootMeanSquareOfOctavesOverTheExtents) {
  const Problem base = mix_problem(64, 64);
  EXPECT_EQ(problem_distance(op, base, base), 0.0);
  EXPECT_DOUBLE_EQ(*problem_distance(op, base, mix_problem(128, 128)), 1.0);
  EXPECT_DOUBLE_EQ(*problem_distance(op, base, mix_problem(64, 128)), std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(*problem_distance(op, mix_problem(64, 128), base), std::sqrt(0.5));
}

TEST_F(OpSpecTest, StridesAndAlignmentsDoNotCountInTheDistance) {
  const Problem base = mix_problem(64, 64);
  Problem padded = base;
  padded.dims["ld"] = 4096;
  padded.alignments["x"] = 2;
  EXPECT_EQ(problem_distance(op, base, padded), 0.0);
}

TEST_F(OpSpecTest, AnEmptyExtentIsAsFarAsOne) {
  EXPECT_EQ(problem_distance(op, mix_problem(64, 0), mix_problem(64, 1)), 0.0);
}

TEST_F(OpSpecTest, OtherDTypesOrChoicesNeverAnswer) {
  const Problem base = mix_problem(64, 64);
  Problem other = base;
  other.choices["layout"] = "col";
  EXPECT_FALSE(problem_distance(op, base, other));
  EXPECT_FALSE(problem_distance(op, base, mix_problem(64, 64, f32)));
  other = base;
  other.op = "mux";
  EXPECT_FALSE(problem_distance(op, base, other));
}

TEST_F(OpSpecTest, AProblemOfAnEarlierFormOfTheOpNeverAnswers) {
  const Problem base = mix_problem(64, 64);
  Problem fewer = base;
  fewer.dims.erase("N");
  EXPECT_FALSE(problem_distance(op, base, fewer));
  Problem renamed = base;
  renamed.alignments.erase("y");
  renamed.alignments["z"] = 16;
  EXPECT_FALSE(problem_distance(op, base, renamed));
}

TEST(GemmOp, CompletesStridesForEachLayout) {
  const std::shared_ptr<const OpSpec> gemm = TemplateSet().find_op("gemm");
  Problem given{
      .op = "gemm", .dims = {{"M", 3}, {"N", 5}, {"K", 7}}, .dtypes = {{"a", tf32}}, .choices = {}, .alignments = {}};
  const Problem usual = complete(*gemm, given);
  EXPECT_EQ(usual.canonical(),
            "gemm K=7 M=3 N=5 batch=1 lda=7 ldb=7 ldd=5 stride_a=21 stride_b=35 stride_d=15 | a=tf32 b=tf32 d=f32 | "
            "a_layout=row b_layout=col | align_a=16 align_b=16 align_d=16");
  given.choices = {{"a_layout", "col"}, {"b_layout", "row"}};
  const Problem other = complete(*gemm, given);
  EXPECT_EQ(other.dims.at("lda"), 3);
  EXPECT_EQ(other.dims.at("ldb"), 5);
  EXPECT_EQ(other.dims.at("stride_a"), 21);
}

Problem gemm_of(std::map<std::string, std::string> choices, std::map<std::string, std::int64_t> dims = {}) {
  Problem given{.op = "gemm", .dims = std::move(dims), .dtypes = {{"a", bf16}}, .choices = {}, .alignments = {}};
  given.choices = std::move(choices);
  given.dims.insert({{"M", 8}, {"N", 6}, {"K", 4}});
  return complete(*TemplateSet().find_op("gemm"), given);
}

TEST(GemmOp, AnEpilogueThatIsNotThereIsNotInTheText) {
  const Problem plain = gemm_of({});
  EXPECT_EQ(gemm_of({{"addend", "d"}, {"bias", "none"}, {"activation", "none"}}).canonical(), plain.canonical());
  EXPECT_EQ(gemm_of({{"bias", "n"}}).canonical(),
            "gemm K=4 M=8 N=6 batch=1 lda=4 ldb=4 ldd=6 stride_a=32 stride_b=24 stride_d=48 | a=bf16 b=bf16 c=bf16 "
            "d=bf16 | a_layout=row b_layout=col bias=n | align_a=16 align_b=16 align_bias=16 align_d=16");
  const Problem residual = gemm_of({{"addend", "residual"}, {"activation", "swiglu"}}, {{"ldc", 5}});
  EXPECT_EQ(residual.dims.at("ldd"), 3);
  EXPECT_EQ(residual.dims.at("stride_c"), 40);
  EXPECT_EQ(parse_canonical_problem(residual.canonical()), residual);
  EXPECT_EQ(complete(*TemplateSet().find_op("gemm"), residual), residual);
}

TEST(GemmOp, WhatBelongsToAnEpilogueThatIsNotThereIsRefused) {
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [] {
                           gemm_of({}, {{"ldc", 6}});
                         }),
              AllOf(HasSubstr("the dim ldc is given"), HasSubstr("addend_is_d == 0")));
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [] {
                           gemm_of({{"addend", "c"}}, {{"ldc", 5}});
                         }),
              HasSubstr("the leading dimension of C"));
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [] {
                           gemm_of({{"activation", "tanh"}});
                         }),
              HasSubstr("allowed are none, relu, gelu, gelu_tanh, silu, swiglu"));
}

TEST(GemmOp, SwigluHalvesD) {
  const std::shared_ptr<const OpSpec> gemm = TemplateSet().find_op("gemm");
  const Problem gated = gemm_of({{"activation", "swiglu"}});
  EXPECT_EQ(flops(*gemm, gated), 2 * 8 * 6 * 4);
  EXPECT_EQ(bytes(*gemm, gated), 2 * (8 * 4 + 6 * 4 + 8 * 3));
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [] {
                           gemm_of({{"activation", "swiglu"}}, {{"N", 7}});
                         }),
              HasSubstr("N must be even"));
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [] {
                           gemm_of({{"activation", "swiglu"}, {"addend", "c"}});
                         }),
              HasSubstr("addend=residual"));
}

TEST(GemmOp, ProblemsWithAndWithoutAnEpilogueAreNear) {
  const std::shared_ptr<const OpSpec> gemm = TemplateSet().find_op("gemm");
  const Problem plain = gemm_of({});
  const Problem fused = gemm_of({{"bias", "n"}, {"activation", "gelu"}});
  EXPECT_DOUBLE_EQ(*problem_distance(*gemm, plain, fused), std::sqrt(2.0 / 4));
  EXPECT_DOUBLE_EQ(*problem_distance(*gemm, fused, plain), std::sqrt(2.0 / 4));
  EXPECT_DOUBLE_EQ(*problem_distance(*gemm, fused, fused), 0.0);
  Problem other_type = fused;
  other_type.dtypes["c"] = f32;
  EXPECT_FALSE(problem_distance(*gemm, fused, other_type));
  EXPECT_TRUE(problem_distance(*gemm, plain, other_type));
}

TEST(GemmOp, InFullAProblemHasEverything) {
  const Problem full = in_full(*TemplateSet().find_op("gemm"), gemm_of({}));
  EXPECT_EQ(full.choices.at("activation"), "none");
  EXPECT_EQ(full.dtypes.at("c"), bf16);
  EXPECT_EQ(full.dims.at("ldc"), 6);
  EXPECT_EQ(full.alignments.at("bias"), 16);
}

TEST(GemmOp, EmptyMatricesAreProblemsLikeOthers) {
  const std::shared_ptr<const OpSpec> gemm = TemplateSet().find_op("gemm");
  for (const char* dim : {"M", "N", "K", "batch"}) {
    Problem given{.op = "gemm",
                  .dims = {{"M", 8}, {"N", 8}, {"K", 8}, {"batch", 2}},
                  .dtypes = {{"a", bf16}},
                  .choices = {},
                  .alignments = {}};
    given.dims[dim] = 0;
    EXPECT_EQ(flops(*gemm, complete(*gemm, given)), 0) << dim;
  }
}

TEST(GemmOp, OverlappingMatricesOfDAreRefused) {
  const std::shared_ptr<const OpSpec> gemm = TemplateSet().find_op("gemm");
  const Problem given{.op = "gemm",
                      .dims = {{"M", 8}, {"N", 8}, {"K", 8}, {"batch", 2}, {"stride_d", 63}},
                      .dtypes = {{"a", bf16}},
                      .choices = {},
                      .alignments = {}};
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { static_cast<void>(complete(*gemm, given)); }),
              AllOf(HasSubstr("must not overlap"), HasSubstr("stride_d=63")));
}

class AttentionOp : public testing::Test {
 protected:
  Problem problem(const std::string& text) { return problem_from_text(*op, parse_problem_text("attention", text)); }
  std::int64_t elements(const std::string& operand, const Problem& of) {
    Scope scope;
    bind_problem(*op, of, scope);
    return op->find_operand(operand)->elements.evaluate(scope);
  }
  std::int64_t flops_of(const std::string& text) { return flops(*op, problem(text)); }

  std::shared_ptr<const OpSpec> op = TemplateSet().find_op("attention");
};

TEST_F(AttentionOp, SpansReachFromTheFirstElementToTheLast) {
  const Problem packed = problem("b=2,h=6,h_kv=3,s_q=5,s_k=7,d=64,d_v=32,dtype=bf16,lse=stored");
  EXPECT_EQ(elements("q", packed), 2 * 5 * 6 * 64);
  EXPECT_EQ(elements("k", packed), 2 * 7 * 3 * 64);
  EXPECT_EQ(elements("v", packed), 2 * 7 * 3 * 32);
  EXPECT_EQ(elements("o", packed), 2 * 5 * 6 * 32);
  EXPECT_EQ(elements("lse", packed), 2 * 5 * 6);
  const Problem strided =
      problem("b=2,h=6,h_kv=3,s_q=5,s_k=7,d=64,q_row=1000,k_head=0,o_row=400,o_batch=2500,dtype=f16");
  EXPECT_EQ(elements("q", strided), 5000 + 4 * 1000 + 5 * 64 + 64);
  EXPECT_EQ(elements("k", strided), 7 * 192 + 6 * 192 + 64);
  EXPECT_EQ(elements("o", strided), 2500 + 4 * 400 + 5 * 64 + 64);
  EXPECT_EQ(elements("lse", strided), 0) << "no log-sum-exp was asked for";
}

TEST_F(AttentionOp, NothingIsTouchedWhereNothingIs) {
  for (const char* empty :
       {"b=0,h=4,s_q=8,s_k=8", "b=2,h=0,s_q=8,s_k=8", "b=2,h=4,s_q=0,s_k=8", "b=2,h=4,s_q=8,s_k=0"}) {
    const Problem p = problem(std::string(empty) + ",d=64,dtype=bf16,lse=stored");
    const bool no_queries = std::string_view(empty).find("s_k=0") == std::string_view::npos;
    EXPECT_EQ(elements("o", p) == 0, no_queries) << empty;
    EXPECT_EQ(elements("q", p) == 0, no_queries) << empty;
    EXPECT_EQ(elements("lse", p) == 0, no_queries) << empty;
    EXPECT_EQ(elements("k", p) == 0, std::string_view(empty).find("s_q=0") == std::string_view::npos) << empty;
    EXPECT_EQ(flops(*op, p), 0) << empty;
  }
}

TEST_F(AttentionOp, FlopsCountTheKeysThatAreSeen) {
  const std::string shape = "b=2,h=3,d=64,d_v=32,dtype=bf16";
  const std::int64_t pair = 2 * 2 * 3 * (64 + 32);  // of a query and a key it sees, in all sequences and heads
  EXPECT_EQ(flops_of(shape + ",s_q=100,s_k=200"), pair * 100 * 200);
  EXPECT_EQ(flops_of(shape + ",s_q=100,mask=causal"), pair * 100 * 100 / 2);
  EXPECT_EQ(flops_of(shape + ",s_q=100,s_k=300,mask=causal"), pair * (100 * 300 - 100 * 100 / 2));
  EXPECT_EQ(flops_of(shape + ",s_q=300,s_k=100,mask=causal"), pair * 100 * 100 / 2) << "200 queries see no key";
  EXPECT_EQ(flops_of(shape + ",s_q=100,s_k=300,mask=window,w=9"), pair * 100 * 10);
  EXPECT_EQ(flops_of(shape + ",s_q=300,s_k=100,mask=window,w=0"), pair * 100);
  EXPECT_EQ(flops_of(shape + ",s_q=100,s_k=300,mask=window,w=1000000"), pair * 100 * 300);
}

TEST_F(AttentionOp, BytesAreOfWhatIsReadAndWrittenOnce) {
  EXPECT_EQ(bytes(*op, problem("b=2,h=6,h_kv=3,s_q=5,s_k=7,d=64,d_v=32,dtype=bf16,o=f32,lse=stored")),
            2 * (5 * 6 * (64 * 2 + 32 * 4) + 7 * 3 * (64 + 32) * 2 + 6 * 5 * 4));
}

TEST_F(AttentionOp, EqualLengthsAreNotSpokenOf) {
  const Problem problem = this->problem("b=2,h=4,s_q=10,d=64,dtype=bf16,lengths=equal");
  EXPECT_EQ(
      problem.canonical(),
      "attention B=2 D=64 D_v=64 H=4 H_kv=4 S_k=10 S_q=10 W=0 k_batch=2560 k_head=64 k_row=256 o_batch=2560 "
      "o_head=64 o_row=256 q_batch=2560 q_head=64 q_row=256 v_batch=2560 v_head=64 v_row=256 | k=bf16 l=f32 o=bf16 "
      "q=bf16 v=bf16 | lse=none mask=none softcap=none | align_k=16 align_lse=16 align_o=16 align_q=16 align_v=16");
}

TEST_F(AttentionOp, CumulativeLengthsHaveTotalsAndNoBatchStrides) {
  const Problem problem = this->problem("b=3,h=4,s_q=10,s_k=20,t_q=21,t_k=30,d=64,dtype=bf16,lengths=cumulative");
  EXPECT_EQ(problem.canonical(),
            "attention B=3 D=64 D_v=64 H=4 H_kv=4 S_k=20 S_q=10 T_k=30 T_q=21 W=0 k_head=64 k_row=256 o_head=64 "
            "o_row=256 q_head=64 q_row=256 v_head=64 v_row=256 | k=bf16 l=f32 o=bf16 offset=i32 q=bf16 v=bf16 | "
            "lengths=cumulative lse=none mask=none softcap=none | align_cu_k=16 align_cu_q=16 align_k=16 align_lse=16 "
            "align_o=16 align_q=16 align_v=16");
}

TEST_F(AttentionOp, CumulativeLengthsSpanAllTokens) {
  const Problem p =
      problem("b=3,h=6,h_kv=3,s_q=10,s_k=20,t_q=21,t_k=30,d=64,d_v=32,dtype=bf16,lse=stored,lengths=cumulative");
  EXPECT_EQ(elements("q", p), 21 * 6 * 64);
  EXPECT_EQ(elements("k", p), 30 * 3 * 64);
  EXPECT_EQ(elements("v", p), 30 * 3 * 32);
  EXPECT_EQ(elements("o", p), 21 * 6 * 32);
  EXPECT_EQ(elements("lse", p), 6 * 21);
  EXPECT_EQ(elements("cu_q", p), 4);
  EXPECT_EQ(elements("cu_k", p), 4);
  // As of three sequences of 7 queries and 10 keys each.
  EXPECT_EQ(flops(*op, p), 2 * 3 * 6 * (64 + 32) * 7 * 10);
  EXPECT_EQ(bytes(*op, p), 21 * 6 * (64 + 32) * 2 + 30 * 3 * (64 + 32) * 2 + 21 * 6 * 4 + 2 * 4 * 4);
}

TEST_F(AttentionOp, TotalsAreHalfOfTheMostWhereTheyAreNotGiven) {
  const Problem same = problem("b=8,h=4,s_q=100,d=64,dtype=bf16,lengths=cumulative");
  EXPECT_EQ(same.dims.at("T_q"), 400);
  EXPECT_EQ(same.dims.at("T_k"), 400);
  const Problem one = problem("b=1,h=4,s_q=100,s_k=31,d=64,dtype=bf16,lengths=cumulative");
  EXPECT_EQ(one.dims.at("T_q"), 100);
  EXPECT_EQ(one.dims.at("T_k"), 31);
}

TEST_F(AttentionOp, CumulativeLengthsThatCannotBeAreRefused) {
  const auto refused = [this](const std::string& text) {
    return message_of(ErrorCode::invalid_argument, [&] { problem("b=3,h=4,s_q=10,d=64,dtype=bf16," + text); });
  };
  EXPECT_THAT(refused("lengths=cumulative,t_q=9"),
              AllOf(HasSubstr("longest sequence of queries"), HasSubstr("S_q=10"), HasSubstr("T_q=9")));
  EXPECT_THAT(refused("lengths=cumulative,t_q=30,t_k=9"), AllOf(HasSubstr("longest sequence of keys"), HasSubstr("9")));
  EXPECT_THAT(refused("lengths=cumulative,t_q=-1"), HasSubstr("T_q is -1; it must be at least 0"));
  EXPECT_THAT(refused("lengths=cumulative,t_q=4000000000"), HasSubstr("32-bit"));
  EXPECT_THAT(refused("lengths=cumulative,q_batch=2560"), AllOf(HasSubstr("q_batch"), HasSubstr("lengths_is_equal")));
  EXPECT_THAT(refused("t_q=30"), AllOf(HasSubstr("T_q"), HasSubstr("lengths_is_cumulative")));
  EXPECT_THAT(refused("lengths=cumulative,t_q=21,o_row=64,o_head=1280"), HasSubstr("heads of O must not overlap"));
  EXPECT_NO_THROW(problem("b=3,h=4,s_q=10,d=64,dtype=bf16,lengths=cumulative,t_q=20,o_row=64,o_head=1280"));
}

}  // namespace
}  // namespace kiln
