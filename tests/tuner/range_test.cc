// Ranges: how they are written, where they are sampled, and tuning them on the fictional device.
#include "tuner/range.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/error.h"
#include "runtime/dispatch.h"
#include "runtime/lookup.h"
#include "tests/message_of.h"
#include "tests/tuner/fictional_device.h"
#include "tuner/range_tuning.h"

namespace kiln::tuner {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

class RangeTextTest : public testing::Test {
 protected:
  TemplateSet templates;
  std::shared_ptr<const OpSpec> gemm = templates.find_op("gemm");

  std::optional<ProblemRange> read(const char* fields) const {
    return read_range(*gemm, parse_problem_text("gemm", fields));
  }
  std::string refusal(const char* fields) const {
    return message_of(ErrorCode::invalid_argument, [&] { read(fields); });
  }
};

TEST_F(RangeTextTest, OneDimVariesAndPackedStridesFollowIt) {
  const auto range = read("m=1..8192,n=4096,k=1024,dtype=bf16");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->dim, "M");
  EXPECT_EQ(range_text(*range), "M=1..8192");
  EXPECT_EQ(with_extent(*gemm, range->given, "M", 77).dims.at("stride_a"), 77 * 1024);
  EXPECT_EQ(read("n=64..128,m=16,k=64,dtype=bf16")->dim, "N");
  EXPECT_FALSE(read("m=1,n=4096,k=1024,dtype=bf16"));
}

TEST_F(RangeTextTest, WhatCannotVaryIsRefusedWithWhatCan) {
  EXPECT_THAT(refusal("m=1..8,n=1..8,k=64"), HasSubstr("a second range"));
  EXPECT_THAT(refusal("lda=1..8,m=1,n=1,k=1"),
              AllOf(HasSubstr("lda=1..8"), HasSubstr("a stride"), HasSubstr("M, N, K")));
  EXPECT_THAT(refusal("dtype=a..b,m=1,n=1,k=1"), HasSubstr("no dim 'dtype'"));
  EXPECT_THAT(refusal("m=1..x,n=1,k=1"), HasSubstr("'x' is no integer"));
  EXPECT_THAT(refusal("m=8..1,n=1,k=1"), HasSubstr("in order"));
  EXPECT_THAT(refusal("m=0..8,n=1,k=1"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("m=1..9999999,n=1,k=1"), HasSubstr("at most 1048576"));
}

TEST_F(RangeTextTest, SamplesArePowersOfTwoHalfwaysTileExtentsAndTheEnds) {
  const auto range = read("m=5..700,n=4096,k=1024,dtype=bf16");
  const std::vector<std::int64_t> samples = sample_extents(*range, templates.of_op("gemm"));
  EXPECT_TRUE(std::is_sorted(samples.begin(), samples.end()));
  EXPECT_EQ(samples.front(), 5);
  EXPECT_EQ(samples.back(), 700);
  EXPECT_THAT(samples, testing::IsSupersetOf(std::vector<std::int64_t>{8, 12, 16, 24, 96, 256, 384, 512}));
  EXPECT_LT(samples.size(), 30U);
  EXPECT_EQ(sample_extents(*read("m=64..64,n=8,k=8,dtype=f32"), {}), std::vector<std::int64_t>{64});
}

// A landscape over N: small blocks win below 3000 elements, large ones above; UNROLL hardly matters.
double ranged_us(const Candidate& candidate, std::int64_t n) {
  if (candidate.template_name != "toy_unrolled") return 1000;
  const double block = static_cast<double>(candidate.config.at("BLOCK"));
  const double unroll = static_cast<double>(candidate.config.at("UNROLL"));
  const double wish = n < 3000 ? 64 : 512;
  return 10 + std::abs(std::log2(block / wish)) * 2 + 0.01 * unroll + static_cast<double>(n % 7) * 0.001;
}

class RangeTuningTest : public testing::Test {
 protected:
  RangeTuningTest() {
    range.given = {.op = "toy", .dims = {}, .dtypes = {}, .choices = {}, .alignments = {}};
    range.dim = "N";
    range.first = 1;
    range.last = 1 << 16;
    lab.device.time_of_job = [](const MeasureJob& job, const Candidate& candidate) {
      return ranged_us(candidate, job.problem.dims.at("N"));
    };
  }

  RangeResult tune(bool predict = false) {
    const TuningParts parts{.templates = &lab.templates,
                            .store = &lab.store,
                            .compiler = &lab.compiler,
                            .measurer = predict ? nullptr : &lab.device,
                            .device = lab.gpu,
                            .versions = lab.versions};
    return run_range_tuning(parts, lab.options, range, lab.observer);
  }

  FictionalLab lab;
  ProblemRange range;
};

TEST_F(RangeTuningTest, TheWholeRangeIsServedByFewKernelsNearTheBest) {
  const RangeResult result = tune();
  ASSERT_FALSE(result.failed) << result.message;
  EXPECT_TRUE(result.measured);
  EXPECT_GT(result.samples.size(), 20U);
  EXPECT_EQ(result.kernels, 2);
  ASSERT_EQ(result.intervals.size(), result.samples.size());
  std::int64_t next = range.first;
  for (const RangeInterval& each : result.intervals) {
    EXPECT_EQ(each.first, next);
    next = each.last + 1;
    EXPECT_LE(each.time_us, each.best_us * (1 + lab.options.range_slack));
    EXPECT_THAT(each.config, HasSubstr(each.last < 3000 ? "BLOCK=64," : "BLOCK=512,"));
  }
  EXPECT_EQ(next, range.last + 1);
}

TEST_F(RangeTuningTest, MoreSlackNeedsFewerKernels) {
  lab.options.range_slack = 0.7;
  const RangeResult result = tune();
  EXPECT_EQ(result.kernels, 1);
}

TEST_F(RangeTuningTest, ItsDecisionsAnswerPreparingAndQueriesWithin) {
  tune();
  const auto op = lab.templates.find_op("toy");
  Lookup::Context context;
  context.templates = &lab.templates;
  context.store = &lab.store;
  context.device = lab.gpu;
  context.versions = lab.versions;
  const Lookup lookup(context);
  std::set<std::string> kernels;
  const auto points = dispatch_points(*op, range.given, {"N", 0, range.last}, lookup.known("toy"));
  for (const std::int64_t last : points) {
    const Answer answer = lookup.find(with_extent(*op, range.given, "N", last));
    EXPECT_EQ(answer.rung, Rung::exact_measured) << last;
    kernels.insert(compiled_part(*answer.kernel_template, answer.config));
  }
  EXPECT_EQ(kernels.size(), 2U);
  // Between the samples the nearest answers, so no third kernel comes up.
  for (const std::int64_t n : {5, 77, 1000, 5000, 50'000}) {
    const Answer answer = lookup.find(with_extent(*op, range.given, "N", n));
    EXPECT_TRUE(kernels.count(compiled_part(*answer.kernel_template, answer.config)) != 0) << n;
  }
}

TEST_F(RangeTuningTest, TheSecondTimeTheStoreAnswers) {
  const RangeResult first = tune();
  const std::size_t touched = lab.device.measured.size();
  const RangeResult again = tune();
  EXPECT_TRUE(again.from_store);
  EXPECT_FALSE(again.failed) << again.message;
  EXPECT_EQ(lab.device.measured.size(), touched);
  EXPECT_EQ(again.kernels, first.kernels);
  ASSERT_EQ(again.intervals.size(), first.intervals.size());
  for (std::size_t i = 0; i < first.intervals.size(); ++i)
    EXPECT_EQ(again.intervals[i].config, first.intervals[i].config);

  // Another range over tuned values is chosen anew, though each value is known.
  range.last = 4096;
  EXPECT_FALSE(tune().from_store);
}

TEST_F(RangeTuningTest, EachKernelIsCompiledOnce) {
  tune();
  std::set<std::string> sources(lab.compiler.sources.begin(), lab.compiler.sources.end());
  EXPECT_EQ(sources.size(), lab.compiler.sources.size());
}

TEST_F(RangeTuningTest, AStopKeepsWhatWasTunedAndTheSameRunGoesOn) {
  lab.observer.stop = [&] { return lab.device.measured.size() > 100; };
  const RangeResult stopped = tune();
  EXPECT_TRUE(stopped.failed);
  EXPECT_THAT(stopped.message, HasSubstr("goes on from there"));
  EXPECT_FALSE(lab.store.decisions("toy", lab.hardware_class()).empty());
  lab.observer.stop = [] { return false; };
  const RangeResult resumed = tune();
  EXPECT_FALSE(resumed.failed) << resumed.message;
  EXPECT_TRUE(resumed.samples.front().from_store);
  EXPECT_EQ(resumed.kernels, 2);
}

TEST_F(RangeTuningTest, PredictionMeasuresNothing) {
  const RangeResult result = tune(/*predict=*/true);
  ASSERT_FALSE(result.failed) << result.message;
  EXPECT_FALSE(result.measured);
  EXPECT_TRUE(lab.device.measured.empty());
  EXPECT_EQ(result.kernels, 1) << "the toy's cost model does not see N";
  EXPECT_THAT(result.intervals.back().config, HasSubstr("BLOCK=256,UNROLL=4"));
  EXPECT_TRUE(tune(/*predict=*/true).from_store);
}

TEST_F(RangeTuningTest, ContendedTimesChangeNoDecision) {
  tune();
  lab.options.resume = lab.options.reuse_trials = false;
  lab.device.foreign = true;
  lab.device.time_of_job = [](const MeasureJob&, const Candidate& candidate) {
    return candidate.config.at("BLOCK") == 128 ? 1.0 : 50.0;
  };
  tune();
  for (const Decision& decision : lab.store.decisions("toy", lab.hardware_class())) {
    EXPECT_NE(decision.config.at("BLOCK"), 128);
  }
  EXPECT_THAT(lab.observer.warnings, Contains(HasSubstr("not stored")));
}

TEST_F(RangeTuningTest, ABakedDimIsRefused) {
  FictionalLab baking;
  const auto refuse = [&](const std::vector<TemplatePtr>& of) {
    return message_of(ErrorCode::invalid_argument, [&] { check_range(*lab.templates.find_op("toy"), range, of); });
  };
  auto baked = std::make_shared<KernelTemplate>(*lab.templates.find("toy_unrolled"));
  baked->manifest.bake = {"N"};
  EXPECT_THAT(refuse({baked}), AllOf(HasSubstr("toy_unrolled bakes N"), HasSubstr("--template")));
}

}  // namespace
}  // namespace kiln::tuner
