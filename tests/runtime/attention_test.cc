#include "kiln/attention.h"

#include <cmath>
#include <limits>
#include <utility>

#include <gmock/gmock.h>

#include "kernel/op_spec.h"
#include "kernel/template_set.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Problem completed(const Attention& attention) {
  return complete(*TemplateSet().find_op("attention"), to_problem(attention));
}

std::string refused(const Attention& attention) {
  return message_of(ErrorCode::invalid_argument, [&] { static_cast<void>(completed(attention)); });
}

const Attention kSmall{.batch = 2, .heads = 4, .s_q = 10, .d = 64};

TEST(AttentionProblem, WhatIsAbsentIsAsForQueriesAndPacked) {
  EXPECT_EQ(
      completed(kSmall).canonical(),
      "attention B=2 D=64 D_v=64 H=4 H_kv=4 S_k=10 S_q=10 W=0 k_batch=2560 k_head=64 k_row=256 o_batch=2560 "
      "o_head=64 o_row=256 q_batch=2560 q_head=64 q_row=256 v_batch=2560 v_head=64 v_row=256 | k=bf16 l=f32 o=bf16 "
      "q=bf16 v=bf16 | lse=none mask=none softcap=none | align_k=16 align_lse=16 align_o=16 align_q=16 align_v=16");
}

TEST(AttentionProblem, EveryFieldArrives) {
  const Problem problem = completed({.batch = 3,
                                     .heads = 8,
                                     .kv_heads = 2,
                                     .s_q = 5,
                                     .s_k = 7,
                                     .d = 192,
                                     .d_v = 128,
                                     .dtype = f16,
                                     .o = f32,
                                     .mask = Mask::window,
                                     .window = 4,
                                     .softcap = 30,
                                     .lse = true,
                                     .alignment = 2});
  EXPECT_EQ(
      problem.canonical(),
      "attention B=3 D=192 D_v=128 H=8 H_kv=2 S_k=7 S_q=5 W=4 k_batch=2688 k_head=192 k_row=384 o_batch=5120 "
      "o_head=128 o_row=1024 q_batch=7680 q_head=192 q_row=1536 v_batch=1792 v_head=128 v_row=256 | k=f16 l=f32 "
      "o=f32 q=f16 v=f16 | lse=stored mask=window softcap=tanh | align_k=2 align_lse=4 align_o=4 align_q=2 align_v=2");
}

TEST(AttentionProblem, StridesThatAreGivenAreKeptAndTheOthersPackedOverThem) {
  Attention attention = kSmall;
  attention.q_strides = {.token = 1000};
  attention.k_strides = bhsd(4, 10, 64);
  attention.v_strides = {.head = 0, .batch = 0};
  const Problem problem = completed(attention);
  EXPECT_EQ(problem.dims.at("q_row"), 1000);
  EXPECT_EQ(problem.dims.at("q_head"), 64);
  EXPECT_EQ(problem.dims.at("q_batch"), 10'000);
  EXPECT_EQ(problem.dims.at("k_row"), 64);
  EXPECT_EQ(problem.dims.at("k_head"), 640);
  EXPECT_EQ(problem.dims.at("k_batch"), 2560);
  EXPECT_EQ(problem.dims.at("v_head"), 0);
  EXPECT_EQ(problem.dims.at("v_batch"), 0);
  EXPECT_EQ(problem.dims.at("o_batch"), 2560);
}

TEST(AttentionProblem, HeadsBeforeTokensNeedNoStrideOfTheirSequences) {
  Attention attention = kSmall;
  attention.q_strides = attention.o_strides = {.token = 64, .head = 640};
  EXPECT_EQ(completed(attention).dims.at("q_batch"), 2560);
  EXPECT_EQ(completed(attention).dims.at("o_batch"), 2560);
}

TEST(AttentionProblem, OneTensorHoldsQueriesKeysAndValues) {
  const Strides strides = packed_qkv(8, 2, 10, 64);
  EXPECT_EQ(strides, (Strides{.token = 12 * 64, .head = 64, .batch = 10 * 12 * 64}));
  const Attention attention{.batch = 2,
                            .heads = 8,
                            .kv_heads = 2,
                            .s_q = 10,
                            .d = 64,
                            .q_strides = strides,
                            .k_strides = strides,
                            .v_strides = strides};
  EXPECT_EQ(completed(attention).dims.at("v_row"), 768);
}

TEST(AttentionProblem, NothingAtAllIsAProblemToo) {
  const std::shared_ptr<const OpSpec> op = TemplateSet().find_op("attention");
  for (Attention attention :
       {Attention{.batch = 0, .heads = 4, .s_q = 10, .d = 64}, Attention{.batch = 2, .heads = 0, .s_q = 10, .d = 64},
        Attention{.batch = 2, .heads = 4, .s_q = 0, .s_k = 10, .d = 64},
        Attention{.batch = 2, .heads = 4, .s_q = 10, .s_k = 0, .d = 64}}) {
    for (const Mask mask : {Mask::none, Mask::causal, Mask::window}) {
      attention.mask = mask;
      EXPECT_EQ(flops(*op, completed(attention)), 0) << completed(attention).canonical();
    }
  }
}

TEST(AttentionProblem, WrongExtentsAreNamedWithTheirValue) {
  const auto with = [](auto change) {
    Attention attention = kSmall;
    change(attention);
    return refused(attention);
  };
  EXPECT_THAT(with([](Attention& a) { a.batch = -1; }), HasSubstr("B is -1; it must be at least 0"));
  EXPECT_THAT(with([](Attention& a) { a.heads = -4; }), HasSubstr("H is -4; it must be at least 0"));
  EXPECT_THAT(with([](Attention& a) { a.s_q = -1; }), HasSubstr("S_q is -1; it must be at least 0"));
  EXPECT_THAT(with([](Attention& a) { a.s_k = -1; }), HasSubstr("S_k is -1; it must be at least 0"));
  EXPECT_THAT(with([](Attention& a) { a.d = 0; }), HasSubstr("D is 0; it must be at least 1"));
  EXPECT_THAT(with([](Attention& a) { a.d_v = -8; }), HasSubstr("D_v is -8; it must be at least 1"));
  EXPECT_THAT(with([](Attention& a) { a.kv_heads = 3; }), AllOf(HasSubstr("whole number"), HasSubstr("H_kv=3")));
  EXPECT_THAT(with([](Attention& a) { a.kv_heads = 0; }), AllOf(HasSubstr("whole number"), HasSubstr("H_kv=0")));
  EXPECT_THAT(with([](Attention& a) { a.alignment = 3; }), HasSubstr("alignment of q is 3"));
  EXPECT_THAT(with([](Attention& a) { a.dtype = f32; }), HasSubstr("dtype q is f32; allowed are bf16, f16"));
  EXPECT_THAT(with([](Attention& a) { a.o = DType::i8; }), HasSubstr("dtype o is i8; allowed are bf16, f16, f32"));
}

TEST(AttentionProblem, WindowsCapsAndMasksThatAreNoneAreRefused) {
  Attention attention = kSmall;
  attention.window = 5;
  EXPECT_THAT(refused(attention),
              AllOf(HasSubstr("window is 5"), HasSubstr("mask is none"), HasSubstr("Mask::window")));
  attention.mask = Mask::window;
  EXPECT_EQ(completed(attention).dims.at("W"), 5);
  attention.window = -1;
  EXPECT_THAT(refused(attention), HasSubstr("window is -1; it must be at least 0"));
  attention = kSmall;
  for (const float cap : {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    attention.softcap = cap;
    EXPECT_THAT(refused(attention), AllOf(HasSubstr("softcap is"), HasSubstr("finite numbers above 0")));
  }
  attention = kSmall;
  attention.mask = static_cast<Mask>(7);
  EXPECT_THAT(refused(attention), HasSubstr("mask is 7"));
}

TEST(AttentionProblem, StridesThatCannotBeAreRefused) {
  const auto with = [](Strides Attention::*operand, const Strides& strides) {
    Attention attention = kSmall;
    attention.*operand = strides;
    return refused(attention);
  };
  EXPECT_THAT(with(&Attention::q_strides, {.head = -64}), HasSubstr("q_head is -64; it must be at least 0"));
  EXPECT_THAT(with(&Attention::k_strides, {.token = -256}), HasSubstr("k_row is -256; it must be at least 0"));
  EXPECT_THAT(with(&Attention::v_strides, {.token = 63}), AllOf(HasSubstr("must cover"), HasSubstr("v_row=63")));
  EXPECT_THAT(with(&Attention::o_strides, {.head = 0}), AllOf(HasSubstr("heads of O"), HasSubstr("o_head=0")));
  EXPECT_THAT(with(&Attention::o_strides, {.token = 255}), AllOf(HasSubstr("rows of O"), HasSubstr("o_row=255")));
  EXPECT_THAT(with(&Attention::o_strides, {.batch = 2559}), AllOf(HasSubstr("sequences of O"), HasSubstr("2559")));
}

TEST(AttentionProblem, ResultsMayNestInAnyOrder) {
  Attention attention = kSmall;
  attention.o_strides = {.token = 512, .head = 64, .batch = 256};  // [token, sequence, head]
  EXPECT_NO_THROW(static_cast<void>(completed(attention)));
  attention.o_strides = {.token = 64, .head = 640 * 2, .batch = 640};  // [head, sequence, token]
  EXPECT_NO_THROW(static_cast<void>(completed(attention)));
}

// Three sequences of at most 10 queries and 20 keys.
const Attention kCumulative{.batch = 3,
                            .heads = 4,
                            .s_q = 10,
                            .s_k = 20,
                            .d = 64,
                            .lengths = Lengths::cumulative,
                            .total_q = 21,
                            .total_k = 45};

TEST(AttentionProblem, CumulativeLengthsHaveTotals) {
  const Problem problem = completed(kCumulative);
  EXPECT_EQ(problem.choices.at("lengths"), "cumulative");
  EXPECT_EQ(problem.dims.at("T_q"), 21);
  EXPECT_EQ(problem.dims.at("T_k"), 45);
  EXPECT_EQ(problem.dims.count("q_batch"), 0U);
  EXPECT_EQ(problem.alignments.at("cu_q"), 16);
  Attention self = kCumulative;
  self.s_k = self.total_k = std::nullopt;
  self.alignment = 2;
  EXPECT_EQ(completed(self).dims.at("T_k"), 21);
  EXPECT_EQ(completed(self).alignments.at("cu_k"), 4);
}

TEST(AttentionProblem, EqualLengthsAreThoseOfOldAndSayNothing) {
  Attention attention = kSmall;
  attention.lengths = Lengths::equal;
  EXPECT_EQ(completed(attention).choices.count("lengths"), 0U);
  EXPECT_EQ(completed(attention).alignments.count("cu_q"), 0U);
  EXPECT_EQ(completed(attention).dtypes.count("offset"), 0U);
}

TEST(AttentionProblem, TotalsThatCannotBeAreRefused) {
  const auto with = [](auto change) {
    Attention attention = kCumulative;
    change(attention);
    return refused(attention);
  };
  EXPECT_THAT(with([](Attention& a) { a.total_q = -1; }), HasSubstr("T_q is -1; it must be at least 0"));
  EXPECT_THAT(with([](Attention& a) { a.total_k = -7; }), HasSubstr("T_k is -7; it must be at least 0"));
  EXPECT_THAT(with([](Attention& a) { a.total_q = 9; }),
              AllOf(HasSubstr("longest sequence of queries"), HasSubstr("S_q=10"), HasSubstr("T_q=9")));
  EXPECT_THAT(with([](Attention& a) {
                a.total_k.reset();
                a.s_k = 22;
              }),
              AllOf(HasSubstr("longest sequence of keys"), HasSubstr("S_k=22"), HasSubstr("T_k=21")));
  EXPECT_THAT(with([](Attention& a) { a.total_q = std::int64_t{1} << 31; }), HasSubstr("32-bit integers"));
  EXPECT_THAT(with([](Attention& a) { a.lengths = static_cast<Lengths>(7); }),
              AllOf(HasSubstr("lengths is 7"), HasSubstr("Lengths::cumulative")));
}

TEST(AttentionProblem, WhatOneKindOfLengthsHasIsNotLostOnTheOther) {
  Attention attention = kSmall;
  attention.total_q = 20;
  EXPECT_THAT(refused(attention), AllOf(HasSubstr("total_q is 20"), HasSubstr("need Lengths::cumulative")));
  attention = kSmall;
  attention.total_k = 30;
  EXPECT_THAT(refused(attention), HasSubstr("total_k is 30"));
  for (auto [operand, name] : {std::pair{&Attention::q_strides, "q"}, std::pair{&Attention::k_strides, "k"},
                               std::pair{&Attention::v_strides, "v"}, std::pair{&Attention::o_strides, "o"}}) {
    attention = kCumulative;
    (attention.*operand).batch = 5120;
    EXPECT_THAT(refused(attention),
                AllOf(HasSubstr(std::string(name) + "_strides.batch is 5120"), HasSubstr("it must be absent")));
  }
}

TEST(AttentionProblem, OneTensorHoldsQueriesKeysAndValuesOfCumulativeLengthsToo) {
  Attention attention = kCumulative;
  attention.s_k = attention.total_k = std::nullopt;
  attention.q_strides = attention.k_strides = attention.v_strides = {.token = 12 * 64, .head = 64};
  EXPECT_EQ(completed(attention).dims.at("v_row"), 768);
}

TEST(AttentionProblem, OneKernelServesEveryScaleAndCap) {
  Attention attention = kSmall;
  attention.softcap = 30;
  const Problem problem = to_problem(attention);
  attention.softcap = 50;
  attention.scale = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(to_problem(attention), problem);
  attention.softcap = 0;
  EXPECT_NE(to_problem(attention), problem);
}

}  // namespace
}  // namespace kiln
