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

TEST(TuningTest, ATemplateThatIsNotDeterministicMustBeNamedOrAllowed) {
  Manifest manifest;
  manifest.name = "atomics";
  TuneOptions options;
  EXPECT_EQ(left_out(options, manifest), "");
  manifest.deterministic = false;
  EXPECT_THAT(left_out(options, manifest), HasSubstr("differ from run to run"));
  options.templates = {"atomics"};
  EXPECT_EQ(left_out(options, manifest), "");
  options.templates = {"another"};
  EXPECT_THAT(left_out(options, manifest), HasSubstr("not one of those asked for"));
  options.templates = {};
  options.deterministic = false;
  EXPECT_EQ(left_out(options, manifest), "");
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
  lab.options.resume = lab.options.reuse_trials = false;
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

// A shipped winner of a problem twice the size, in a configuration that the cost model ranks last.
Decision shipped_winner(FictionalLab& lab, const std::string& hardware_class) {
  Decision decision;
  decision.hardware_class = hardware_class;
  decision.problem = complete(*lab.templates.find_op("toy"), lab.problem);
  decision.problem.dims["N"] *= 2;
  decision.template_name = "toy_unrolled";
  decision.config = parse_config("BLOCK=512,UNROLL=1");
  decision.evidence = Evidence::measured;
  decision.time_us = 10;
  return decision;
}

TEST(TuningTest, ASearchStartsFromWinnersOfNearProblemsStoredAndShipped) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.options.max_candidates = 1;
  lab.presets = {shipped_winner(lab, lab.hardware_class())};
  lab.run();
  EXPECT_EQ(lab.device.measured.front(), "toy_unrolled BLOCK=512,UNROLL=1");

  FictionalLab stored;
  stored.options.max_candidates = 1;
  stored.presets = {shipped_winner(stored, stored.hardware_class())};
  Decision nearer = shipped_winner(stored, stored.hardware_class());
  nearer.config = parse_config("BLOCK=64,UNROLL=8");
  stored.store.put_decision(nearer);
  stored.run();
  EXPECT_EQ(stored.device.measured.front(), "toy_unrolled BLOCK=64,UNROLL=8") << "what was measured here goes first";
}

TEST(TuningTest, WinnersOfOtherHardwareAreAStartOnlyWhereThereAreNoBetterOnes) {
  FictionalLab lab;
  lab.options.max_candidates = 1;
  lab.presets = {shipped_winner(lab, "cc9.0-another")};
  lab.run();
  EXPECT_EQ(lab.device.measured.front(), "toy_unrolled BLOCK=512,UNROLL=1");

  FictionalLab both;
  both.options.max_candidates = 1;
  both.presets = {shipped_winner(both, "cc9.0-another"), shipped_winner(both, both.hardware_class())};
  both.presets[1].config = parse_config("BLOCK=64,UNROLL=8");
  both.run();
  EXPECT_EQ(both.device.measured.front(), "toy_unrolled BLOCK=64,UNROLL=8");
}

TEST(TuningTest, AWinnerThatIsIllegalHereLendsItsNearestRelative) {
  FictionalLab lab;
  lab.options.max_candidates = 1;
  lab.presets = {shipped_winner(lab, lab.hardware_class())};
  lab.presets[0].config = parse_config("BLOCK=512,UNROLL=8");  // more elements than a block may have
  lab.run();
  EXPECT_THAT(lab.device.measured.front(),
              testing::AnyOf("toy_unrolled BLOCK=512,UNROLL=4", "toy_unrolled BLOCK=256,UNROLL=8"));
}

TEST(TuningTest, TheDefaultSearchMeasuresNoMoreCandidatesThanItMay) {
  FictionalLab lab;
  lab.device.time_us = [](const Candidate&) { return 10.0; };
  lab.options.templates = {"simt_gemm"};
  const Problem gemm{.op = "gemm",
                     .dims = {{"M", 512}, {"N", 512}, {"K", 512}},
                     .dtypes = {{"a", f32}},
                     .choices = {},
                     .alignments = {}};
  const TuneResult result = lab.run({gemm}).at(0);
  EXPECT_GT(result.space_size, 200U);
  EXPECT_EQ(result.tried, 24);
  const std::set<std::string> distinct(lab.device.measured.begin(), lab.device.measured.end());
  EXPECT_EQ(distinct.size(), 24U);
}

TEST(TuningTest, TheDefaultSearchOfOneProblemEndsInTime) {
  FictionalLab lab;
  lab.device.time_us = landscape_us;
  lab.device.takes = std::chrono::milliseconds(60);
  lab.options.problem_limit = std::chrono::milliseconds(800);
  const auto start = std::chrono::steady_clock::now();
  const TuneResult result = lab.run();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 3.0);
  EXPECT_FALSE(result.failed) << result.message;
  EXPECT_LT(result.tried, 17);
}

// A large space: every candidate gets a first look, and the best are measured again by the whole protocol.
TEST(TuningTest, AnExhaustiveSearchLooksQuicklyFirst) {
  FictionalLab lab;
  lab.options.search = SearchKind::exhaustive;
  lab.options.templates = {"simt_gemm"};
  const std::string best = "BK=16,BM=64,BN=64,LM=4,SPLIT=1,TM=4,TN=8,VEC=4";
  lab.device.time_us = [&](const Candidate& candidate) {
    return to_text(candidate.config) == best ? 5.0 : 10.0 + static_cast<double>(candidate.config.at("BM"));
  };
  const Problem gemm{
      .op = "gemm", .dims = {{"M", 64}, {"N", 64}, {"K", 64}}, .dtypes = {{"a", f32}}, .choices = {}, .alignments = {}};
  const TuneResult result = lab.run({gemm}).at(0);
  ASSERT_FALSE(result.failed) << result.message;
  EXPECT_EQ(result.config, best);
  EXPECT_EQ(result.tried, static_cast<int>(result.space_size));
  std::size_t quick = 0;
  std::size_t whole = 0;
  for (const MeasureJob& job : lab.device.jobs) (job.quick ? quick : whole) += job.candidates.size();
  EXPECT_EQ(quick, result.space_size);
  EXPECT_EQ(whole, 24U + 5U);
  EXPECT_FALSE(lab.device.jobs.back().quick);
}

TEST(TuningTest, EveryKernelIsCompiledOnceAheadOfTheMeasurement) {
  FictionalLab lab;
  lab.options.search = SearchKind::exhaustive;
  lab.options.templates = {"simt_gemm"};
  lab.compiler.refuses = {"BM = 32LL"};
  std::size_t compiled_at_first_measurement = 0;
  lab.device.before_each = [&] {
    if (compiled_at_first_measurement == 0) compiled_at_first_measurement = lab.compiler.sources.size();
  };
  std::vector<Problem> problems;
  for (const int m : {64, 65}) {
    problems.push_back({.op = "gemm",
                        .dims = {{"M", m}, {"N", 64}, {"K", 256}},
                        .dtypes = {{"a", f32}},
                        .choices = {},
                        .alignments = {}});
  }
  lab.run(problems);
  const std::set<std::string> distinct(lab.compiler.sources.begin(), lab.compiler.sources.end());
  EXPECT_EQ(distinct.size(), lab.compiler.sources.size()) << "SPLIT is set at launch, and failures are remembered too";
  EXPECT_GT(compiled_at_first_measurement, 64U) << "the next batch compiles while the first is measured";
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
