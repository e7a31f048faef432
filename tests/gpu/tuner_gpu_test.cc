// Tuning and benchmarking by measurement, on a real GPU.
#include <cstdio>

#include <gmock/gmock.h>

#include "tests/gpu/gpu_lab.h"
#include "tuner/bench.h"
#include "tuner/range_tuning.h"
#include "tuner/study.h"

namespace kiln::tuner {
namespace {

class TunerGpuTest : public GpuTest {
 protected:
  static Problem gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
    return {.op = "gemm",
            .dims = {{"M", m}, {"N", n}, {"K", k}},
            .dtypes = {{"a", dtype}},
            .choices = {},
            .alignments = {}};
  }
};

TEST_F(TunerGpuTest, AGemmIsTunedAndItsDecisionCarriesEvidence) {
  GpuLab lab({});
  lab.options.max_candidates = 8;
  const TuneResult result = lab.tune(gemm(512, 768, 640, bf16));
  ASSERT_FALSE(result.failed) << result.message;
  EXPECT_TRUE(result.measured);
  EXPECT_GT(result.time_us, 0);
  EXPECT_GT(result.error, 0);
  EXPECT_LT(result.error, 5e-3);
  std::printf("%s %s: %.2f us (baseline %s %.2f us), %d tried, %d failed\n", result.template_name.c_str(),
              result.config.c_str(), result.time_us, result.baseline.c_str(), result.baseline_us, result.tried,
              result.failures);
  const auto decision = lab.store.find_decision(cuda::hardware_class(lab.device), result.problem);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->evidence, Evidence::measured);
  EXPECT_GE(decision->samples, 5);

  const TuneResult again = lab.tune(gemm(512, 768, 640, bf16));
  EXPECT_TRUE(again.from_store);
}

TEST_F(TunerGpuTest, OddShapesAndLayoutsAreTunedToo) {
  GpuLab lab({});
  lab.options.max_candidates = 4;
  for (const char* a_layout : {"row", "col"}) {
    for (const char* b_layout : {"row", "col"}) {
      Problem problem = gemm(129, 77, 55, f32);
      problem.choices = {{"a_layout", a_layout}, {"b_layout", b_layout}};
      problem.dims["batch"] = 3;
      const TuneResult result = lab.tune(problem);
      EXPECT_FALSE(result.failed) << result.message;
      EXPECT_LE(result.error, 1e-5);
      // The baseline's result is checked too, so where the library is installed this shows that it solves the same
      // problem.
      std::printf("a %s, b %s: %.2f us, %s %.2f us\n", a_layout, b_layout, result.time_us,
                  result.baseline.empty() ? "no baseline" : result.baseline.c_str(), result.baseline_us);
    }
  }
}

TEST_F(TunerGpuTest, ARangeIsServedByFewKernelsWithinTheSlack) {
  GpuLab lab({});
  lab.options.max_candidates = 6;
  ProblemRange range;
  range.given = gemm(1, 1024, 512, bf16);
  range.given.dims.erase("M");
  range.dim = "M";
  range.last = 300;
  const RangeResult result = run_range_tuning(lab.parts(), lab.options, range, lab.observer);
  ASSERT_FALSE(result.failed) << result.message;
  EXPECT_LE(result.kernels, result.winners);
  std::int64_t next = 1;
  for (const RangeInterval& each : result.intervals) {
    EXPECT_EQ(each.first, next);
    next = each.last + 1;
    EXPECT_LE(each.time_us, each.best_us * (1 + lab.options.range_slack) + 1e-9);
    std::printf("M %4lld to %4lld: %s %s, %.2f us, best %.2f us\n", static_cast<long long>(each.first),
                static_cast<long long>(each.last), each.template_name.c_str(), each.config.c_str(), each.time_us,
                each.best_us);
  }
  EXPECT_EQ(next, 301);
  EXPECT_TRUE(run_range_tuning(lab.parts(), lab.options, range, lab.observer).from_store);
}

TEST_F(TunerGpuTest, AStudyHoldsTheDefaultSearchAgainstAnExhaustiveOne) {
  GpuLab lab({});
  lab.options.templates = {"simt_gemm"};
  lab.options.exhaustive_within = 1.2;  // some 270 of 3,079
  lab.options.budget = std::chrono::seconds(60);
  const std::vector<StudyRow> rows = run_study(lab.parts(), lab.options, {gemm(512, 512, 512, f32)}, lab.observer);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].failure, "");
  EXPECT_LE(rows[0].found.tried, 24);
  EXPECT_GT(rows[0].exhaustive.tried, 24);
  EXPECT_GT(rows[0].found_us, 0);
  EXPECT_GT(rows[0].model_us, 0);
  std::printf("default %.2f us after %d candidates and %.1f s, exhaustive %.2f us after %d and %.1f s, model %.2f us\n",
              rows[0].found_us, rows[0].found.tried, rows[0].found.seconds, rows[0].exhaustive_us,
              rows[0].exhaustive.tried, rows[0].exhaustive.seconds, rows[0].model_us);
}

TEST_F(TunerGpuTest, AnUntunedProblemIsBenchedAgainstItsPeers) {
  RuntimeOptions runtime;
  Bench bench(runtime, {.gpu = {}, .peers = {"cublaslt_default", "cublaslt_best"}, .only_template = {}, .helper = {}});
  const BenchRow row = bench.bench_problem(gemm(1024, 1024, 1024, bf16));
  ASSERT_TRUE(row.kiln) << (row.failure ? row.failure->message : "no outcome");
  EXPECT_GE(row.kiln->batches, 5);
  EXPECT_GT(row.kiln->median_us, 0);
  std::printf("%s: kiln %.2f us", row.provenance.template_name.c_str(), row.kiln->median_us);
  for (const auto& [name, timing] : row.peers) std::printf(", %s %.2f us", name.c_str(), timing.median_us);
  for (const auto& [name, why] : row.peer_failures) std::printf(", %s: %s", name.c_str(), why.c_str());
  std::printf("\n");
}

}  // namespace
}  // namespace kiln::tuner
