// Tuning and benchmarking by measurement, on a real GPU.
#include <cstdio>

#include <gmock/gmock.h>

#include "tests/gpu/gpu_lab.h"
#include "tuner/bench.h"

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
