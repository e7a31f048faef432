#include "tuner/tuning.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tuner/fictional_device.h"

namespace kiln::tuner {
namespace {

using testing::HasSubstr;

TEST(TuningTest, EverySearchFindsTheFastestOfASmallSpace) {
  for (const SearchKind kind :
       {SearchKind::automatic, SearchKind::exhaustive, SearchKind::random, SearchKind::evolve}) {
    FictionalLab lab;
    lab.device.time_us = landscape_us;
    lab.options.search = kind;
    const TuneResult result = lab.run();
    EXPECT_FALSE(result.failed) << result.message;
    EXPECT_EQ(result.template_name, "toy_unrolled");
    EXPECT_EQ(result.config, "BLOCK=256,UNROLL=4") << static_cast<int>(kind);
    EXPECT_TRUE(result.measured);
    EXPECT_DOUBLE_EQ(result.time_us, 10);
    ASSERT_TRUE(lab.decision());
    EXPECT_EQ(to_text(lab.decision()->config), "BLOCK=256,UNROLL=4");
    EXPECT_EQ(lab.decision()->evidence, Evidence::measured);
    EXPECT_GE(lab.device.renewals, 1) << "finalists are measured in a fresh process";
  }
}

TEST(TuningTest, EveryFaultIsRecordedAsItsKindAndNoneWins) {
  FictionalLab lab;
  lab.options.search = SearchKind::exhaustive;
  // The faulty ones would be the fastest.
  lab.device.time_us = [](const Candidate& candidate) {
    return candidate.template_name == "toy_unrolled" && candidate.config.at("BLOCK") == 256 ? 1.0 : 20.0;
  };
  lab.device.faults = {{"toy_unrolled BLOCK=256,UNROLL=1", Fault::crash},
                       {"toy_unrolled BLOCK=256,UNROLL=2", Fault::hang},
                       {"toy_unrolled BLOCK=256,UNROLL=4", Fault::wrong_result}};
  lab.compiler.refuses = {"BLOCK = 256LL;\n  static constexpr long long UNROLL = 8LL"};
  lab.compiler.spills = {"BLOCK = 128LL;\n  static constexpr long long UNROLL = 8LL"};
  const TuneResult result = lab.run();
  EXPECT_FALSE(result.failed) << result.message;
  EXPECT_DOUBLE_EQ(result.time_us, 20);
  EXPECT_EQ(result.failures, 5);
  EXPECT_EQ(lab.failure_of("toy_unrolled BLOCK=256,UNROLL=1"), FailureKind::crash);
  EXPECT_EQ(lab.failure_of("toy_unrolled BLOCK=256,UNROLL=2"), FailureKind::timeout);
  EXPECT_EQ(lab.failure_of("toy_unrolled BLOCK=256,UNROLL=4"), FailureKind::wrong_result);
  EXPECT_EQ(lab.failure_of("toy_unrolled BLOCK=256,UNROLL=8"), FailureKind::compile);
  EXPECT_EQ(lab.failure_of("toy_unrolled BLOCK=128,UNROLL=8"), FailureKind::resources);
  for (const Trial& trial : lab.trials()) {
    if (trial.failure && trial.failure->kind == FailureKind::crash) {
      EXPECT_EQ(trial.failure->log, "worker log");
    }
    if (trial.failure && trial.failure->kind == FailureKind::compile) {
      EXPECT_THAT(trial.failure->log, HasSubstr("unit.cu(1)"));
    }
  }
}

TEST(TuningTest, AFreshDecisionIsAnsweredFromTheStore) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  const TuneResult first = lab.run();
  const std::size_t touched = lab.device.measured.size();
  const TuneResult second = lab.run();
  EXPECT_TRUE(second.from_store);
  EXPECT_EQ(second.config, first.config);
  EXPECT_EQ(lab.device.measured.size(), touched);
}

TEST(TuningTest, AnotherDriverMakesADecisionStale) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.run();
  lab.versions.driver = 13010;
  const TuneResult again = lab.run();
  EXPECT_FALSE(again.from_store);
  EXPECT_EQ(lab.decision()->versions.driver, 13010);
}

TEST(TuningTest, AStoppedRunKeepsItsTrialsAndIsResumed) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.options.search = SearchKind::exhaustive;
  lab.observer.stop = [&] { return lab.device.measured.size() >= 5; };
  lab.run({lab.problem});
  EXPECT_EQ(lab.trials().size(), 5U);
  ASSERT_TRUE(lab.decision()) << "the best so far is kept";

  // As after a kill: trials without a decision.
  MemoryStore trials_only;
  for (const Trial& trial : lab.trials()) trials_only.put_trial(trial);
  FictionalLab resumed;
  for (const Trial& trial :
       trials_only.trials(lab.hardware_class(), complete(*lab.templates.find_op("toy"), lab.problem))) {
    resumed.store.put_trial(trial);
  }
  resumed.device.time_us = landscape_us;
  resumed.options.search = SearchKind::exhaustive;
  const TuneResult result = resumed.run();
  EXPECT_EQ(result.config, "BLOCK=256,UNROLL=4");
  std::multiset<std::string> touched(resumed.device.measured.begin(), resumed.device.measured.end());
  for (const Trial& trial : lab.trials()) {
    // Only finalists are measured again.
    EXPECT_LE(touched.count(describe(trial.template_name, trial.config)), 1U);
  }
  constexpr std::size_t kStored = 5;
  constexpr std::size_t kFinalists = 5;
  EXPECT_EQ(touched.size(), result.space_size - kStored + kFinalists);
}

TEST(TuningTest, TheIncumbentStaysUnlessItIsBeatenByMoreThanTheNoise) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.run();
  lab.options.resume = false;
  const auto challenge = [&](double challenger_us) {
    lab.device.time_us = [challenger_us](const Candidate& candidate) {
      if (to_text(candidate.config) == "BLOCK=256,UNROLL=2") return challenger_us;
      return landscape_us(candidate);
    };
    return lab.run().config;
  };
  EXPECT_EQ(challenge(9.9), "BLOCK=256,UNROLL=4");
  EXPECT_EQ(challenge(9.5), "BLOCK=256,UNROLL=2");
}

TEST(TuningTest, ABudgetIsHard) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.device.takes = std::chrono::milliseconds(100);
  lab.options.search = SearchKind::exhaustive;
  lab.options.budget = std::chrono::milliseconds(1000);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<TuneResult> results = lab.run({lab.problem});
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 3.0);
  EXPECT_LT(lab.device.measured.size(), 14U);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_FALSE(results[0].failed) << "the best so far is given: " << results[0].message;
}

TEST(TuningTest, ABudgetIsSharedAmongProblems) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.device.takes = std::chrono::milliseconds(50);
  lab.options.search = SearchKind::exhaustive;
  lab.options.budget = std::chrono::milliseconds(3000);
  std::vector<Problem> problems;
  for (int i = 0; i < 5; ++i) {
    problems.push_back(lab.problem);
    problems.back().dims["N"] = 1000 + i;
  }
  EXPECT_EQ(lab.run(problems).size(), 5U);
}

TEST(TuningTest, ContendedTimingsAreNotStoredAsMeasured) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.device.foreign = true;
  lab.device.faults = {{"toy_unrolled BLOCK=256,UNROLL=4", Fault::crash}};
  const TuneResult result = lab.run();
  EXPECT_FALSE(result.failed);
  EXPECT_THAT(result.message, HasSubstr("not stored"));
  EXPECT_FALSE(lab.decision());
  for (const Trial& trial : lab.trials()) EXPECT_TRUE(trial.failure);
  EXPECT_EQ(lab.observer.warnings.size(), 1U);
}

TEST(TuningTest, OutOfMemoryIsRetriedAndNeverRemembered) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.options.search = SearchKind::exhaustive;
  const std::string best = "toy_unrolled BLOCK=256,UNROLL=4";
  lab.device.faults = {{best, Fault::out_of_memory}};
  lab.device.only_first = {{best, 1}};
  EXPECT_EQ(lab.run().config, "BLOCK=256,UNROLL=4");

  FictionalLab full;
  full.device.time_us = landscape_us;
  full.options.search = SearchKind::exhaustive;
  full.device.faults = {{best, Fault::out_of_memory}};
  EXPECT_NE(full.run().config, "BLOCK=256,UNROLL=4");
  full.device.faults.clear();
  full.versions.driver = 13010;
  EXPECT_EQ(full.run().config, "BLOCK=256,UNROLL=4");
}

TEST(TuningTest, SpillsAreMeasuredOnlyWhenNothingElseIsLeft) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.compiler.spills = {"BLOCK"};
  const TuneResult result = lab.run();
  EXPECT_FALSE(result.failed) << result.message;
  EXPECT_GT(result.time_us, 0);
}

TEST(TuningTest, WhenNothingIsUsableTheFirstFailureIsTold) {
  FictionalLab lab;
  lab.compiler.refuses = {"BLOCK"};
  const TuneResult result = lab.run();
  EXPECT_TRUE(result.failed);
  EXPECT_THAT(result.message, HasSubstr("error: expected a ';'"));
  EXPECT_FALSE(lab.decision());
}

TEST(TuningTest, AnEmptyResultNeedsNoTuning) {
  FictionalLab lab;
  lab.problem.dims["N"] = 0;
  const TuneResult result = lab.run();
  EXPECT_FALSE(result.failed);
  EXPECT_THAT(result.message, HasSubstr("nothing to tune"));
  EXPECT_TRUE(lab.device.measured.empty());
}

TEST(TuningTest, ABadProblemDoesNotEndTheRun) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  Problem bad = lab.problem;
  bad.dims["Q"] = 3;
  const std::vector<TuneResult> results = lab.run({bad, lab.problem});
  ASSERT_EQ(results.size(), 2U);
  EXPECT_TRUE(results[0].failed);
  EXPECT_FALSE(results[1].failed);
}

TEST(TuningTest, PredictionCompilesAndDropsWhatSpills) {
  FictionalLab lab;
  const auto predict = [&] { return lab.run({lab.problem}, /*predict=*/true).at(0); };
  TuneResult result = predict();
  EXPECT_EQ(result.config, "BLOCK=256,UNROLL=4");
  EXPECT_FALSE(result.measured);
  EXPECT_EQ(lab.decision()->evidence, Evidence::predicted);
  EXPECT_TRUE(lab.device.measured.empty());

  FictionalLab spilling;
  spilling.compiler.spills = {"BLOCK = 256LL;\n  static constexpr long long UNROLL = 4LL"};
  result = spilling.run({spilling.problem}, /*predict=*/true).at(0);
  EXPECT_NE(result.config, "BLOCK=256,UNROLL=4");
  EXPECT_EQ(spilling.failure_of("toy_unrolled BLOCK=256,UNROLL=4"), FailureKind::resources);
}

TEST(TuningTest, ProblemsThatShareKernelsShareCompiles) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.options.search = SearchKind::exhaustive;
  lab.run();
  const int compiles = lab.compiler.compiles;
  lab.problem.dims["N"] = 12345;
  lab.run();
  EXPECT_EQ(lab.compiler.compiles, compiles) << "N is not baked in";
}

TEST(TuningTest, TheBaselineIsMeasuredWithTheFinalists) {
  FictionalLab lab;
  lab.device.time_us = [](const Candidate&) { return 100.0; };
  lab.device.peer_us = {{"cublaslt_best", 150.0}};
  lab.options.max_candidates = 4;
  lab.options.templates = {"simt_gemm"};
  const Problem gemm{.op = "gemm",
                     .dims = {{"M", 256}, {"N", 256}, {"K", 256}},
                     .dtypes = {{"a", f32}},
                     .choices = {},
                     .alignments = {}};
  const TuneResult result = lab.run({gemm}).at(0);
  EXPECT_FALSE(result.failed) << result.message;
  EXPECT_EQ(result.baseline, "cublaslt_best");
  EXPECT_DOUBLE_EQ(result.baseline_us, 150.0);
}

}  // namespace
}  // namespace kiln::tuner
