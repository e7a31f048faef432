// Cost models against made-up trials: reading them from a store, fitting, and writing the constants back.
#include "tuner/model/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/gpu_profiles.h"
#include "kernel/config_scope.h"
#include "kernel/space.h"
#include "kernel/template_set.h"
#include "kiln/error.h"
#include "runtime/memory_store.h"
#include "tests/message_of.h"
#include "tuner/model/constants_text.h"
#include "tuner/model/evaluator.h"
#include "tuner/model/rank.h"

namespace kiln::tuner {
namespace {

using testing::HasSubstr;

// Trials of simt_gemm in a world where its cost model is right but for its constants.
class ModelTest : public testing::Test {
 protected:
  TemplateSet templates;
  TemplatePtr t = templates.find("simt_gemm");
  cuda::DeviceInfo gpu = *cache::gpu_profile("h200");
  MemoryStore store;

  Problem problem(const char* fields) const { return problem_from_text(*t->op, parse_problem_text("gemm", fields)); }

  Trial trial(const Problem& of, const Config& config, double us) const {
    Trial result;
    result.hardware_class = cuda::hardware_class(gpu);
    result.problem = of.canonical();
    result.template_name = t->manifest.name;
    result.template_digest = t->digest.hex();
    result.config = config;
    result.timing = Timing{.median_us = us, .min_us = us, .max_us = us, .spread = 0, .batches = 5};
    result.unix_time = 100;
    return result;
  }

  // Every 40th legal configuration, timed by the model with other constants.
  void measure_all(const std::vector<CostConstant>& truth) {
    for (const char* fields :
         {"m=512,n=512,k=512,dtype=f32", "m=16,n=4096,k=4096,dtype=f32", "m=2048,n=2048,k=1024,dtype=f32"}) {
      MeasuredProblem measured{problem(fields), {}};
      const Space space = enumerate(*t, measured.problem, gpu);
      for (std::size_t i = 0; i < space.configs.size(); i += 40) measured.configs.push_back({space.configs[i], 1});
      const std::vector<MeasuredProblem> one{measured};
      const auto times = ModelEvaluator(*t, one, gpu).predict(truth);
      for (std::size_t i = 0; i < measured.configs.size(); ++i) {
        store.put_trial(trial(measured.problem, measured.configs[i].config, times[0][i]));
      }
    }
  }

  std::vector<MeasuredProblem> read(TrialForms forms = TrialForms::current) {
    return measured_problems(store, *t, gpu, forms);
  }
};

TEST_F(ModelTest, AFitFindsConstantsThatExplainTheTimes) {
  std::vector<CostConstant> truth = t->manifest.cost_constants;
  for (CostConstant& constant : truth) {
    if (constant.name == "start_cycles") constant.value *= 3;
    if (constant.name == "latency_cycles") constant.value *= 2;
    if (constant.name == "memory_percent") constant.value = 60;
  }
  measure_all(truth);
  const std::vector<MeasuredProblem> problems = read();
  ASSERT_EQ(problems.size(), 3U);
  ASSERT_GT(problems[0].configs.size(), kTopCount);

  const FitResult fit = fit_constants(*t, problems, gpu, {}, {});
  EXPECT_TRUE(fit.converged);
  EXPECT_LE(fit.evaluations, FitOptions{}.max_evaluations);
  EXPECT_LT(fit.loss_after, fit.loss_before / 3);
  ModelEvaluator evaluator(*t, problems, gpu);
  const auto predicted = evaluator.predict(fit.constants);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    std::vector<double> times;
    for (const MeasuredConfig& each : problems[i].configs) times.push_back(each.us);
    EXPECT_GT(rank_scores(predicted[i], times).first_choice, 0.98);
  }

  const FitResult again = fit_constants(*t, problems, gpu, {}, {});
  EXPECT_EQ(constants_block(again.constants), constants_block(fit.constants)) << "a fit is deterministic";
}

TEST_F(ModelTest, AFitStaysWithinItsEvaluationsAndStopsWhenTold) {
  measure_all(t->manifest.cost_constants);
  const std::vector<MeasuredProblem> problems = read();
  EXPECT_LE(fit_constants(*t, problems, gpu, {.max_evaluations = 5}, {}).evaluations, 5);
  const FitResult stopped = fit_constants(*t, problems, gpu, {}, [] { return false; });
  EXPECT_EQ(stopped.evaluations, 1);
  EXPECT_FALSE(stopped.converged);
  EXPECT_EQ(constants_block(stopped.constants), constants_block(t->manifest.cost_constants));
}

TEST_F(ModelTest, TheLossIsLeastWhenTheFirstChoiceIsTheFastest) {
  const std::vector<MeasuredConfig> measured{{{}, 10}, {{}, 20}, {{}, 40}};
  const double right = model_loss({10, 20, 40}, measured);
  EXPECT_NEAR(right, 0, 1e-9);
  EXPECT_GT(model_loss({20, 10, 40}, measured), std::log(1.9)) << "the second was chosen, twice as slow";
  const double scaled = model_loss({20, 40, 80}, measured);
  EXPECT_GT(scaled, right) << "a prediction of twice the time is worse,";
  EXPECT_LT(scaled, 0.05) << "but hardly";
}

TEST_F(ModelTest, OnlyUsableTrialsCountAndTheNewestOfSeveral) {
  const Problem of = problem("m=512,n=512,k=512,dtype=f32");
  const Config config = t->manifest.fallback;
  Trial failed = trial(of, config, 1);
  failed.timing.reset();
  failed.failure = Failure{FailureKind::crash, "crashed", ""};
  store.put_trial(failed);
  EXPECT_TRUE(read().empty());

  store.put_trial(trial(of, config, 10));
  Trial newer = trial(of, config, 12);
  newer.versions.driver = 13010;
  newer.unix_time = 200;
  store.put_trial(newer);
  Trial predicted = trial(of, config, 1);
  predicted.evidence = Evidence::predicted;
  predicted.config["BK"] = 8;
  store.put_trial(predicted);
  Trial foreign = trial(of, config, 1);
  foreign.hardware_class = "cc9.0-other";
  store.put_trial(foreign);
  const std::vector<MeasuredProblem> problems = read();
  ASSERT_EQ(problems.size(), 1U);
  ASSERT_EQ(problems[0].configs.size(), 1U);
  EXPECT_EQ(problems[0].configs[0].us, 12);
}

TEST_F(ModelTest, TrialsOfEarlierFormsCountWhenAskedForAndStillLegal) {
  const Problem of = problem("m=512,n=512,k=512,dtype=f32");
  Trial earlier = trial(of, t->manifest.fallback, 10);
  earlier.template_digest = "another";
  store.put_trial(earlier);
  Trial other_parameters = earlier;
  other_parameters.config = {{"TILE", 64}};
  store.put_trial(other_parameters);
  Trial illegal = earlier;
  illegal.config["BM"] = 7;
  store.put_trial(illegal);
  EXPECT_TRUE(read().empty());
  const std::vector<MeasuredProblem> problems = read(TrialForms::any);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].configs.size(), 1U);
}

constexpr const char* kManifest = R"toml(name = "axpy"   # größer
op = "gemm"
source = "axpy.cuh"
arch = ["sm_80+"]
[[launch]]
kernel = "k"
grid = 1
block = 1

[cost]
cycles = "rate * 2 + start"
[cost.constants]
rate  = 1_000   # per 100 cycles
start =7#no blanks
[default]
)toml";

TEST(ConstantsTextTest, OnlyTheValuesChange) {
  std::string expected = kManifest;
  expected.replace(expected.find("1_000"), 5, "42");
  expected.replace(expected.find("=7#"), 3, "=123456#");
  EXPECT_EQ(with_constants(kManifest, "axpy.toml", {{"start", 123456}, {"rate", 42}}), expected);
  EXPECT_EQ(with_constants(kManifest, "axpy.toml", {{"start", 7}, {"rate", 1000}}).size(),
            std::string(kManifest).size() - 1);
}

TEST(ConstantsTextTest, AnInlineTableOnOneLineWorksToo) {
  std::string text = kManifest;
  const std::size_t at = text.find("[cost.constants]");
  text.replace(at, text.find("[default]") - at, "constants = { \"rate\" = 3, start = 5 }  # größer\n");
  const std::string changed = with_constants(text, "axpy.toml", {{"rate", 30}, {"start", 50}});
  EXPECT_THAT(changed, HasSubstr("constants = { \"rate\" = 30, start = 50 }  # größer\n"));
}

TEST(ConstantsTextTest, OtherConstantsAreRefused) {
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [] {
                           with_constants(kManifest, "axpy.toml", {{"rate", 1}, {"stop", 2}});
                         }),
              testing::AllOf(HasSubstr("axpy.toml"), HasSubstr("rate, start"), HasSubstr("rate, stop")));
}

TEST(ConstantsTextTest, EveryShippedManifestCanBeRewritten) {
  const TemplateSet templates;
  for (const TemplatePtr& t : templates.of_op("gemm")) {
    if (!t->manifest.cost_cycles) continue;
    EXPECT_FALSE(t->manifest.cost_constants.empty()) << t->manifest.name;
  }
}

}  // namespace
}  // namespace kiln::tuner
