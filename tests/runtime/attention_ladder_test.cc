// Which template the ladder finds for an attention, on GPUs that need not be here.
#include <gmock/gmock.h>

#include "cache/gpu_profiles.h"
#include "kernel/launch_plan.h"
#include "kernel/template_set.h"
#include "kiln/attention.h"
#include "runtime/lookup.h"
#include "runtime/memory_store.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class AttentionLadder : public testing::Test {
 protected:
  Answer find(const Attention& attention, const char* gpu = "h200") {
    const auto device = cache::gpu_profile(gpu);
    Lookup::Context context;
    context.templates = &templates;
    context.store = &store;
    context.device = *device;
    problem = complete(*templates.find_op("attention"), to_problem(attention));
    Answer answer = Lookup(context).find(problem, "");
    const KernelTemplate& t = *answer.kernel_template;
    plan = build_plan(t, t.manifest.launches, problem, answer.config, *device, EncodeMaps::no);
    return answer;
  }
  std::string name(const Attention& attention, const char* gpu = "h200") {
    return find(attention, gpu).kernel_template->manifest.name;
  }

  TemplateSet templates;
  MemoryStore store;
  Problem problem;
  LaunchPlan plan;
};

const Attention kUsual{.batch = 2, .heads = 16, .s_q = 2048, .d = 128, .mask = Mask::causal};

TEST_F(AttentionLadder, EveryArchitectureHasItsTemplate) {
  EXPECT_EQ(name(kUsual), "sm90_attention");
  for (const char* gpu : {"a100", "l40s", "rtx4090", "b200", "rtx5090"})
    EXPECT_EQ(name(kUsual, gpu), "sm80_attention") << gpu;
}

TEST_F(AttentionLadder, WhatTensorMapsCannotTakeIsNotLeftToTheReference) {
  Attention attention = kUsual;
  attention.alignment = 2;
  EXPECT_EQ(name(attention), "sm80_attention");
  attention = kUsual;
  attention.k_strides.token = 16 * 128 + 1;
  EXPECT_EQ(name(attention), "sm80_attention");
  attention = kUsual;
  attention.d = 77;
  EXPECT_EQ(name(attention), "sm80_attention");
  attention.d_v = 256;
  EXPECT_EQ(name(attention), "sm80_attention");
}

TEST_F(AttentionLadder, NothingToComputeIsAnsweredToo) {
  for (const Attention& attention :
       {Attention{.batch = 0, .heads = 4, .s_q = 10, .d = 64}, Attention{.batch = 2, .heads = 0, .s_q = 10, .d = 64},
        Attention{.batch = 2, .heads = 4, .s_q = 0, .s_k = 10, .d = 64}}) {
    EXPECT_NE(name(attention), "reference_attention");
    EXPECT_TRUE(plan.launches.empty()) << problem.canonical();
  }
}

TEST_F(AttentionLadder, WithoutKeysTheZerosAreStillWritten) {
  for (const char* gpu : {"h200", "a100"}) {
    EXPECT_NE(name({.batch = 2, .heads = 4, .s_q = 10, .s_k = 0, .d = 64, .lse = true}, gpu), "reference_attention");
    ASSERT_EQ(plan.launches.size(), 1U);
    // In the order of the op: q, k, v, o, lse.
    EXPECT_FALSE(plan.touched[1] || plan.touched[2]);
    EXPECT_TRUE(plan.touched[3] && plan.touched[4]);
  }
}

TEST_F(AttentionLadder, NoWorkspaceGrowsWithTheSequences) {
  for (const std::int64_t tokens : {1, 1000, 16384, 262144}) {
    for (const int alignment : {2, 16}) {
      Attention attention = kUsual;
      attention.s_q = tokens;
      attention.alignment = alignment;
      find(attention);
      EXPECT_EQ(plan.workspace_bytes, 0U) << problem.canonical();
    }
  }
}

const Attention kCumulative{.batch = 5,
                            .heads = 16,
                            .s_q = 2048,
                            .d = 128,
                            .mask = Mask::causal,
                            .lengths = Lengths::cumulative,
                            .total_q = 4000};

TEST_F(AttentionLadder, CumulativeLengthsHaveTheirTemplatesToo) {
  EXPECT_EQ(name(kCumulative), "sm90_attention");
  for (const char* gpu : {"a100", "rtx4090", "b200"}) EXPECT_EQ(name(kCumulative, gpu), "sm80_attention") << gpu;
  Attention attention = kCumulative;
  attention.alignment = 2;
  EXPECT_EQ(name(attention), "sm80_attention");
}

TEST_F(AttentionLadder, TheGridIsMadeForTheLongestOfCumulativeLengths) {
  Attention attention = kCumulative;
  attention.alignment = 2;
  const Answer answer = find(attention);
  ASSERT_EQ(plan.launches.size(), 1U);
  EXPECT_EQ(plan.launches[0].grid[0], 2048 / answer.config.at("BM") * 16 * 5);
  // In the order of the op: q, k, v, o, lse, cu_q, cu_k.
  EXPECT_EQ(plan.touched, (std::vector<bool>{true, true, true, true, false, true, true}));
  find(kUsual);
  EXPECT_EQ(plan.touched, (std::vector<bool>{true, true, true, true, false, false, false}));
}

TEST_F(AttentionLadder, NoQueriesOfCumulativeLengthsLaunchNothing) {
  Attention attention = kCumulative;
  attention.s_q = 0;
  attention.s_k = 100;
  EXPECT_NE(name(attention), "reference_attention");
  EXPECT_TRUE(plan.launches.empty());
  attention.total_q = 0;
  attention.total_k = 4000;
  find(attention);
  EXPECT_TRUE(plan.launches.empty());
}

TEST_F(AttentionLadder, ManyHeadsAndLongSequencesFitTheGrid) {
  EXPECT_NO_THROW(find({.batch = 4096, .heads = 64, .s_q = 16, .d = 64}));  // more than 65535 heads in all
  EXPECT_EQ(plan.launches.size(), 1U);
  EXPECT_NO_THROW(find({.batch = 4096, .heads = 64, .s_q = 16, .d = 64, .alignment = 2}));
  EXPECT_EQ(plan.launches.at(0).grid[0], 4096U * 64U);
  EXPECT_NO_THROW(find({.batch = 64, .heads = 32, .s_q = 16384, .d = 128}));  // 2³² elements of each operand
}

TEST_F(AttentionLadder, AHeadDimensionThatNoTemplateTakesIsNamedWithWhatIs) {
  Attention attention = kUsual;
  attention.d = 600;
  EXPECT_THAT(
      message_of(ErrorCode::unsupported, [&] { find(attention); }),
      AllOf(HasSubstr("D=600"), HasSubstr("head dimensions are at most 256"), HasSubstr("D <= 256 && D_v <= 256")));
}

}  // namespace
}  // namespace kiln
