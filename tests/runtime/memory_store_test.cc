#include "runtime/memory_store.h"

#include <thread>

#include <gtest/gtest.h>

#include "tests/runtime/sample_rows.h"

namespace kiln {
namespace {

TEST(MemoryStore, ACubinIsFoundByItsKeyAlone) {
  MemoryStore store;
  EXPECT_FALSE(store.find_cubin("k1"));
  EXPECT_TRUE(store.put_cubin(sample_cubin("k1", 100)));
  ASSERT_TRUE(store.find_cubin("k1"));
  EXPECT_EQ(store.find_cubin("k1")->cubin, sample_cubin("k1", 100).cubin);
  EXPECT_FALSE(store.find_cubin("k2"));
}

TEST(MemoryStore, ADecisionIsOfOneClassAndProblem) {
  MemoryStore store;
  store.put_decision(sample_decision(1));
  EXPECT_TRUE(store.find_decision("cc9.0-test", sample_problem(1)));
  EXPECT_FALSE(store.find_decision("cc9.0-test", sample_problem(2)));
  EXPECT_FALSE(store.find_decision("cc8.0-test", sample_problem(1)));
}

TEST(MemoryStore, APredictionNeverReplacesAMeasurement) {
  MemoryStore store;
  Decision predicted = sample_decision(1);
  predicted.evidence = Evidence::predicted;
  predicted.unix_time += 100;
  predicted.time_us = 1;
  EXPECT_TRUE(store.put_decision(sample_decision(1)));
  EXPECT_TRUE(store.put_decision(predicted));
  EXPECT_EQ(store.find_decision("cc9.0-test", sample_problem(1))->time_us, 10.5);
}

TEST(MemoryStore, ANewerDecisionReplacesAnOlderOneOfTheSameEvidence) {
  MemoryStore store;
  Decision newer = sample_decision(1);
  newer.unix_time += 1;
  newer.time_us = 9;
  store.put_decision(newer);
  store.put_decision(sample_decision(1));
  EXPECT_EQ(store.find_decision("cc9.0-test", sample_problem(1))->time_us, 9);
}

TEST(MemoryStore, DecisionsAreListedByOpAndClass) {
  MemoryStore store;
  store.put_decision(sample_decision(1));
  Decision other = sample_decision(1);
  other.hardware_class = "cc8.0-test";
  store.put_decision(other);
  EXPECT_EQ(store.decisions("gemm", "").size(), 2u);
  EXPECT_EQ(store.decisions("gemm", "cc8.0-test").size(), 1u);
  EXPECT_TRUE(store.decisions("attention", "").empty());
}

TEST(MemoryStore, ATrialReplacesOnlyTheSameCandidateOfTheSameVersions) {
  MemoryStore store;
  store.put_trial(sample_trial(1, 64));
  store.put_trial(sample_trial(1, 128));
  Trial again = sample_trial(1, 64);
  again.timing->median_us = 8;
  store.put_trial(again);
  EXPECT_EQ(store.trials("cc9.0-test", sample_problem(1)).size(), 2u);
  again.versions.driver = 13010;
  store.put_trial(again);
  EXPECT_EQ(store.trials("cc9.0-test", sample_problem(1)).size(), 3u);
  EXPECT_EQ(store.trials_of_template("cc9.0-test", "simt_gemm").size(), 3u);
  EXPECT_TRUE(store.trials_of_template("cc9.0-test", "other").empty());
}

TEST(MemoryStore, RunningOutOfMemoryForgetsNoEarlierResult) {
  MemoryStore store;
  store.put_trial(sample_trial(1, 64));
  Trial failed = sample_trial(1, 64);
  failed.timing.reset();
  failed.failure = Failure{.kind = FailureKind::out_of_memory, .message = "", .log = ""};
  store.put_trial(failed);
  EXPECT_TRUE(store.trials("cc9.0-test", sample_problem(1))[0].timing);
  failed.failure->kind = FailureKind::crash;
  store.put_trial(failed);
  EXPECT_TRUE(store.trials("cc9.0-test", sample_problem(1))[0].failure);
}

TEST(MemoryStore, MissesAddUpAndEndWithAMeasuredDecision) {
  MemoryStore store;
  store.record_miss(sample_miss(1));
  store.record_miss(sample_miss(2));
  Miss unnumbered = sample_miss(2);
  unnumbered.count = 0;
  store.record_miss(unnumbered);
  ASSERT_EQ(store.misses().size(), 2u);
  EXPECT_EQ(store.misses()[0].problem, sample_problem(2));
  EXPECT_EQ(store.misses()[0].count, 2);

  Decision predicted = sample_decision(2);
  predicted.evidence = Evidence::predicted;
  store.put_decision(predicted);
  EXPECT_EQ(store.misses().size(), 2u);
  store.put_decision(sample_decision(2));
  ASSERT_EQ(store.misses().size(), 1u);
  EXPECT_EQ(store.misses()[0].problem, sample_problem(1));
}

TEST(MemoryStore, ThreadsMayUseItAtOnce) {
  MemoryStore store;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      for (int i = 0; i < 50; ++i) {
        store.put_trial(sample_trial(t, i));
        store.record_miss(sample_miss(1));
        store.put_cubin(sample_cubin("k" + std::to_string(i), 10));
        store.find_decision("cc9.0-test", sample_problem(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store.trials_of_template("cc9.0-test", "simt_gemm").size(), 200u);
  EXPECT_EQ(store.misses()[0].count, 200);
}

TEST(FailureKind, EveryNameParsesBack) {
  for (int i = 0; i <= static_cast<int>(FailureKind::out_of_memory); ++i) {
    const auto kind = static_cast<FailureKind>(i);
    EXPECT_EQ(parse_failure_kind(to_string(kind)), kind);
  }
  EXPECT_FALSE(parse_failure_kind("unknown"));
}

}  // namespace
}  // namespace kiln
