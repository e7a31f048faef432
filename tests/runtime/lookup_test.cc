#include "runtime/lookup.h"

#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/memory_store.h"
#include "tests/cache/scratch_folder.h"
#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Versions kVersions{.driver = 13000, .nvrtc = "13.0", .kiln = "0.1.0"};

// Two templates of op mix on a fictional device: mix_fast, whose tile must not exceed the rows, before mix_slow.
class LookupTest : public testing::Test {
 protected:
  LookupTest() {
    fast.params = "T = [16, 32, 64, 128]";
    fast.tables = "[require]\n\"T <= M\" = \"whole tiles\"\n";
    fast.fallback = "T = 1";
    slow.name = "mix_slow";
    slow.op.clear();
    slow.top = "op = \"mix\"\npriority = -5";
    context.store = &store;
    context.device = sample_device();
    context.versions = kVersions;
  }

  Answer find(const Problem& problem, const std::string& only_template = {}) {
    make_templates();
    return Lookup(context).find(problem, only_template);
  }

  void ship(std::vector<Decision> decisions) {
    context.presets = [decisions = std::move(decisions)](const std::string& op) {
      std::vector<Preset> presets;
      for (const Decision& each : decisions) {
        if (each.problem.op == op) presets.push_back({each.hardware_class, each.problem, [each] { return each; }});
      }
      return presets;
    };
  }

  void make_templates() {
    if (templates) return;
    cache::write_file(folder.path() / "mix.cuh", "#pragma once\n");
    cache::write_file(folder.path() / "fast.toml", fast.text());
    cache::write_file(folder.path() / "slow.toml", slow.text());
    templates = std::make_unique<TemplateSet>(std::vector{folder.path()});
    context.templates = templates.get();
  }

  Decision decision(const Problem& problem, std::int64_t t, Evidence evidence = Evidence::measured) {
    make_templates();
    Decision result;
    result.hardware_class = cuda::hardware_class(context.device);
    result.problem = problem;
    result.template_name = "mix_fast";
    result.template_digest = templates->find("mix_fast")->digest.hex();
    result.config = {{"T", t}};
    result.evidence = evidence;
    result.time_us = 10;
    result.versions = kVersions;
    return result;
  }

  // A device that differs from the sample by its SM count, and a decision made on it.
  Decision preset_of(int sm_count, std::int64_t t) {
    cuda::DeviceInfo other = sample_device();
    other.sm_count = sm_count;
    context.profiles.push_back(other);
    Decision result = decision(problem, t);
    result.hardware_class = cuda::hardware_class(other);
    result.origin = "preset";
    return result;
  }

  cache::ScratchFolder folder;
  ManifestDraft fast;
  ManifestDraft slow;
  MemoryStore store;
  std::unique_ptr<TemplateSet> templates;
  Lookup::Context context;
  Problem problem = mix_problem(1024, 1024);
};

TEST_F(LookupTest, WithNothingKnownTheFirstTemplatesDefaultAnswers) {
  const Answer answer = find(problem);
  EXPECT_EQ(answer.rung, Rung::fallback);
  EXPECT_EQ(answer.kernel_template->manifest.name, "mix_fast");
  EXPECT_EQ(answer.config, (Config{{"T", 1}}));
  EXPECT_EQ(answer.source, "the default of mix_fast");
  EXPECT_EQ(answer.expected_us, 0);
  EXPECT_FALSE(answer.decision);
  for (const char* rung : {"exact_measured: nothing stored", "nearest_measured: no near problem among 0",
                           "preset: no near problem among 0", "near_preset: no near problem among 0",
                           "predicted: no accepting template has a cost model"}) {
    EXPECT_THAT(answer.notes, Contains(HasSubstr(rung)));
  }
}

TEST_F(LookupTest, UntunedATemplateThatIsNotDeterministicMustBeNamed) {
  fast.top = "deterministic = false\n" + fast.top;
  const Answer answer = find(problem);
  EXPECT_EQ(answer.kernel_template->manifest.name, "mix_slow");
  EXPECT_THAT(answer.notes, Contains(HasSubstr("mix_fast: its results differ from run to run")));
  EXPECT_EQ(find(problem, "mix_fast").kernel_template->manifest.name, "mix_fast");
}

TEST_F(LookupTest, ConsentToResultsThatDifferHoldsForTheProblemThatWasTuned) {
  fast.top = "deterministic = false\n" + fast.top;
  store.put_decision(decision(mix_problem(1024, 512), 64));
  EXPECT_EQ(find(mix_problem(1024, 512)).kernel_template->manifest.name, "mix_fast");
  const Answer answer = find(problem);
  EXPECT_EQ(answer.kernel_template->manifest.name, "mix_slow");
  EXPECT_THAT(answer.notes, Contains(HasSubstr("is not taken over")));
  EXPECT_EQ(find(problem, "mix_fast").rung, Rung::nearest_measured);
}

TEST_F(LookupTest, AnIllegalDefaultIsPassedOver) {
  fast.fallback = "T = 4096";
  const Answer answer = find(problem);
  EXPECT_EQ(answer.kernel_template->manifest.name, "mix_slow");
  EXPECT_THAT(answer.notes, Contains(AllOf(HasSubstr("default of mix_fast"), HasSubstr("whole tiles"))));
  EXPECT_THAT(message_of(ErrorCode::unsupported, [&] { find(problem, "mix_fast"); }), HasSubstr("whole tiles"));
}

TEST_F(LookupTest, WhatWasMeasuredForThisVeryProblemAnswersFirst) {
  store.put_decision(decision(problem, 128));
  store.put_decision(decision(mix_problem(1024, 512), 64));
  ship({preset_of(100, 32)});
  const Answer answer = find(problem);
  EXPECT_EQ(answer.rung, Rung::exact_measured);
  EXPECT_EQ(answer.config, (Config{{"T", 128}}));
  EXPECT_EQ(answer.source, "this problem");
  EXPECT_EQ(answer.expected_us, 10);
  EXPECT_FALSE(answer.stale);
  EXPECT_THAT(answer.notes, IsEmpty());
  ASSERT_TRUE(answer.decision);
}

TEST_F(LookupTest, TheNearestMeasuredProblemAnswersWithItsTimeInProportion) {
  store.put_decision(decision(mix_problem(1024, 4096), 32));
  store.put_decision(decision(mix_problem(1024, 512), 64));
  const Answer answer = find(problem);
  EXPECT_EQ(answer.rung, Rung::nearest_measured);
  EXPECT_EQ(answer.config, (Config{{"T", 64}}));
  EXPECT_EQ(answer.source, mix_problem(1024, 512).canonical());
  EXPECT_DOUBLE_EQ(answer.expected_us, 20);
}

TEST_F(LookupTest, AProblemMoreThanTwoOctavesAwayDoesNotAnswer) {
  store.put_decision(decision(mix_problem(4096, 4096), 64));
  EXPECT_EQ(find(problem).rung, Rung::nearest_measured);
  EXPECT_EQ(find(mix_problem(512, 512)).rung, Rung::fallback);
}

TEST_F(LookupTest, OtherDTypesAndLayoutsDoNotAnswer) {
  store.put_decision(decision(mix_problem(1024, 1024, f32), 64));
  Problem other = problem;
  other.choices["layout"] = "col";
  store.put_decision(decision(other, 64));
  EXPECT_EQ(find(problem).rung, Rung::fallback);
}

TEST_F(LookupTest, OtherHardwareDoesNotAnswer) {
  Decision elsewhere = decision(problem, 64);
  elsewhere.hardware_class = "cc9.0-other";
  store.put_decision(elsewhere);
  EXPECT_EQ(find(problem).rung, Rung::fallback);
}

TEST_F(LookupTest, AnIllegalConfigurationIsSkippedForTheNextNearest) {
  const Problem small = mix_problem(48, 1024);
  store.put_decision(decision(mix_problem(64, 1024), 64));
  store.put_decision(decision(mix_problem(128, 1024), 32));
  const Answer answer = find(small);
  EXPECT_EQ(answer.rung, Rung::nearest_measured);
  EXPECT_EQ(answer.config, (Config{{"T", 32}}));
  EXPECT_THAT(answer.notes, Contains("nearest_measured: mix_fast T=64 is not legal here: whole tiles (T <= M)"));
}

TEST_F(LookupTest, AnIllegalExactAnswerIsSkippedWithANote) {
  Decision illegal = decision(problem, 2048);
  store.put_decision(illegal);
  const Answer answer = find(problem);
  EXPECT_EQ(answer.rung, Rung::fallback);
  EXPECT_THAT(answer.notes, Contains(AllOf(HasSubstr("exact_measured: mix_fast T=2048"), HasSubstr("not legal here"))));
}

TEST_F(LookupTest, ADecisionOfAnEarlierFormOfItsTemplateIsSkippedWithANote) {
  Decision renamed = decision(problem, 64);
  renamed.config = {{"TILE", 64}};
  store.put_decision(renamed);
  EXPECT_THAT(find(problem).notes, Contains(AllOf(HasSubstr("TILE=64"), HasSubstr("no parameter 'TILE'"))));
  renamed.config = {};
  store.put_decision(renamed);
  EXPECT_THAT(find(problem).notes, Contains(HasSubstr("says nothing of parameter 'T'")));
}

TEST_F(LookupTest, ADecisionForATemplateThatIsGoneIsSkippedWithANote) {
  Decision gone = decision(problem, 64);
  gone.template_name = "mix_gone";
  store.put_decision(gone);
  const Answer answer = find(problem);
  EXPECT_EQ(answer.rung, Rung::fallback);
  EXPECT_THAT(answer.notes, Contains(HasSubstr("mix_gone T=64 does not take this problem here")));
}

TEST_F(LookupTest, ADecisionForAnEarlierFormOfTheOpIsPassedOver) {
  Decision earlier = decision(problem, 64);
  earlier.problem.dims.erase("ld");
  earlier.problem.dims["pitch"] = 1024;
  store.put_decision(earlier);
  earlier.problem = problem;
  earlier.problem.alignments.clear();
  store.put_decision(earlier);
  EXPECT_EQ(find(problem).rung, Rung::fallback);
}

TEST_F(LookupTest, AMeasurementByOtherSoftwareIsServedAsStale) {
  const auto stale = [this](const std::function<void(Decision&)>& change) {
    Decision changed = decision(problem, 64);
    change(changed);
    store.put_decision(changed);
    const Answer answer = find(problem);
    EXPECT_EQ(answer.rung, Rung::exact_measured);
    return answer.stale;
  };
  EXPECT_FALSE(stale([](Decision&) {}));
  EXPECT_TRUE(stale([](Decision& d) { d.versions.driver = 12080; }));
  EXPECT_TRUE(stale([](Decision& d) { d.versions.nvrtc = "12.8"; }));
  EXPECT_TRUE(stale([](Decision& d) { d.versions.kiln = "0.0.9"; }));
  EXPECT_TRUE(stale([](Decision& d) { d.template_digest = "another"; }));
}

TEST_F(LookupTest, AVersionThisProcessDoesNotKnowSaysNothing) {
  Decision old = decision(problem, 64);
  old.versions.driver = 12080;
  old.versions.nvrtc = "12.8";
  store.put_decision(old);
  context.versions.driver = 0;
  context.versions.nvrtc = "";
  EXPECT_FALSE(find(problem).stale);
}

TEST_F(LookupTest, APresetForThisHardwareComesBeforeOneForHardwareLikeIt) {
  ship({preset_of(110, 32), preset_of(100, 64)});
  const Answer answer = find(problem);
  EXPECT_EQ(answer.rung, Rung::preset);
  EXPECT_EQ(answer.config, (Config{{"T", 64}}));
}

TEST_F(LookupTest, APresetForHardwareLikeThisAnswersAndFarHardwareDoesNot) {
  ship({preset_of(110, 32)});
  EXPECT_EQ(find(problem).rung, Rung::near_preset);
  ship({preset_of(1000, 32)});
  EXPECT_EQ(find(problem).rung, Rung::fallback);
}

TEST_F(LookupTest, APresetThatCannotBeReadGivesWayToTheNextNearest) {
  Decision next = preset_of(100, 64);
  next.problem = mix_problem(1024, 512);
  ship({preset_of(100, 32), next});
  context.presets = [presets = context.presets](const std::string& op) {
    std::vector<Preset> some = presets(op);
    some.front().decision = [] { return std::optional<Decision>(); };
    return some;
  };
  const Answer answer = find(problem);
  EXPECT_EQ(answer.rung, Rung::preset);
  EXPECT_EQ(answer.config, (Config{{"T", 64}}));
}

TEST_F(LookupTest, OnlyThePresetThatAnswersIsRead) {
  Decision far = preset_of(100, 32);
  far.problem = mix_problem(1024, 512);
  ship({far, preset_of(100, 64)});
  int read = 0;
  context.presets = [presets = context.presets, &read](const std::string& op) {
    std::vector<Preset> counted = presets(op);
    for (Preset& preset : counted) {
      preset.decision = [whole = preset.decision, &read] {
        ++read;
        return whole();
      };
    }
    return counted;
  };
  EXPECT_EQ(find(problem).config, (Config{{"T", 64}}));
  EXPECT_EQ(read, 1);
}

TEST_F(LookupTest, KnowsTheProblemsDecidedOnThisHardware) {
  store.put_decision(decision(mix_problem(1024, 512), 64));
  ship({preset_of(100, 32), preset_of(110, 32)});
  make_templates();
  const Lookup lookup(context);
  EXPECT_THAT(lookup.known("mix"), testing::ElementsAre(mix_problem(1024, 512), problem));
  EXPECT_THAT(lookup.known("gemm"), IsEmpty());
}

TEST_F(LookupTest, APresetForAnotherComputeCapabilityDoesNotAnswer) {
  Decision preset = preset_of(100, 32);
  context.profiles[0].cc_major = 8;
  preset.hardware_class = cuda::hardware_class(context.profiles[0]);
  ship({preset});
  EXPECT_EQ(find(problem).rung, Rung::fallback);
}

TEST_F(LookupTest, APresetForHardwareOfNoProfileDoesNotAnswer) {
  ship({preset_of(110, 32)});
  context.profiles.clear();
  EXPECT_EQ(find(problem).rung, Rung::fallback);
}

TEST_F(LookupTest, APresetIsNeverStaleAndGivesWayToWhatWasMeasuredHere) {
  Decision preset = preset_of(100, 32);
  preset.versions.nvrtc = "12.8";
  ship({preset});
  EXPECT_EQ(find(problem).rung, Rung::preset);
  EXPECT_FALSE(find(problem).stale);
  store.put_decision(decision(mix_problem(1024, 512), 64));
  EXPECT_EQ(find(problem).rung, Rung::nearest_measured);
}

TEST_F(LookupTest, AStoredPredictionComesBehindEveryMeasurementAndPreset) {
  store.put_decision(decision(problem, 128, Evidence::predicted));
  Answer answer = find(problem);
  EXPECT_EQ(answer.rung, Rung::predicted);
  EXPECT_EQ(answer.config, (Config{{"T", 128}}));
  EXPECT_EQ(answer.expected_us, 10);
  EXPECT_FALSE(answer.stale);
  ship({preset_of(110, 32)});
  EXPECT_EQ(find(problem).rung, Rung::near_preset);
  store.put_decision(decision(mix_problem(1024, 512), 64));
  EXPECT_EQ(find(problem).rung, Rung::nearest_measured);
}

TEST_F(LookupTest, APredictionForAnotherProblemDoesNotAnswer) {
  store.put_decision(decision(mix_problem(1024, 512), 64, Evidence::predicted));
  EXPECT_EQ(find(problem).rung, Rung::fallback);
}

TEST_F(LookupTest, TheFastestPredictionOfAllTemplatesAnswers) {
  fast.tables += "[cost]\ncycles = \"150000 / T\"\n";
  slow.tables = "[cost]\ncycles = \"10 * T\"\n";
  const Answer answer = find(problem);
  EXPECT_EQ(answer.rung, Rung::predicted);
  EXPECT_EQ(answer.kernel_template->manifest.name, "mix_slow");
  EXPECT_EQ(answer.config, (Config{{"T", 32}}));
  EXPECT_EQ(answer.source, "the cost model of mix_slow");
  EXPECT_DOUBLE_EQ(answer.expected_us, 320.0 / 1500);
}

TEST_F(LookupTest, ACostModelThatCannotBeEvaluatedIsPassedOver) {
  fast.tables += "[cost]\ncycles = \"M / (N - 1024)\"\n";
  slow.tables = "[cost]\ncycles = \"M\"\n";
  const Answer answer = find(problem);
  EXPECT_EQ(answer.kernel_template->manifest.name, "mix_slow");
  EXPECT_THAT(answer.notes, Contains(AllOf(HasSubstr("predicted: mix_fast"), HasSubstr("division by zero"))));
  EXPECT_EQ(find(problem, "mix_fast").rung, Rung::fallback);
}

TEST_F(LookupTest, APredictionIsCheckedBeforeItIsGiven) {
  fast.tables += "[cost]\ncycles = 1\n";
  fast.fallback = "T = 32";
  const Answer answer = find(mix_problem(8, 1024));
  EXPECT_EQ(answer.kernel_template->manifest.name, "mix_slow");
  EXPECT_THAT(answer.notes, Contains(AllOf(HasSubstr("predicted: mix_fast T=32"), HasSubstr("whole tiles"))));
}

TEST_F(LookupTest, WorkTooLargeToCountLeavesTheTimeUnknown) {
  const Problem huge = mix_problem(std::int64_t{1} << 26, std::int64_t{1} << 26);
  ASSERT_THROW(static_cast<void>(flops(mix_op(), huge)), Error);
  store.put_decision(decision(mix_problem(std::int64_t{1} << 25, std::int64_t{1} << 25), 64));
  const Answer answer = find(huge);
  EXPECT_EQ(answer.rung, Rung::nearest_measured);
  EXPECT_EQ(answer.expected_us, 0);
}

TEST_F(LookupTest, OnlyTheTemplateAskedForIsConsidered) {
  store.put_decision(decision(problem, 64));
  const Answer answer = find(problem, "mix_slow");
  EXPECT_EQ(answer.rung, Rung::fallback);
  EXPECT_EQ(answer.kernel_template->manifest.name, "mix_slow");
  EXPECT_EQ(find(problem, "mix_fast").rung, Rung::exact_measured);
}

TEST_F(LookupTest, ATemplateThatRejectsTheProblemIsPassedOverWithANote) {
  fast.top = "[[accept]]\nx = [\"f32\"]";
  store.put_decision(decision(problem, 64));
  const Answer answer = find(problem);
  EXPECT_EQ(answer.kernel_template->manifest.name, "mix_slow");
  EXPECT_THAT(answer.notes, Contains("mix_fast: does not take x=bf16"));
  EXPECT_THAT(answer.notes, Contains(HasSubstr("mix_fast T=64 does not take this problem here")));
}

TEST_F(LookupTest, WhereNoTemplateTakesTheProblemEachReasonIsListed) {
  fast.top = "[[accept]]\nx = [\"f32\"]";
  slow.arch = R"(["sm_100+"])";
  EXPECT_THAT(message_of(ErrorCode::unsupported, [&] { find(problem); }),
              AllOf(HasSubstr(problem.canonical()), HasSubstr(cuda::hardware_class(context.device)),
                    HasSubstr("mix_fast: does not take x=bf16"), HasSubstr("mix_slow: runs on sm_100+")));
}

TEST(Predict, ChoosesTheCheapestLegalConfiguration) {
  ManifestDraft draft;
  draft.params = "T = [32, 64, 128, 256]";
  draft.tables = "[require]\n\"T < 200\" = \"a limit\"\n[cost]\ncycles = \"1500 * 128 / T\"\n";
  const Prediction prediction = predict(*draft.build(), mix_problem(8, 8), sample_device());
  EXPECT_EQ(prediction.config, (Config{{"T", 128}}));
  EXPECT_DOUBLE_EQ(prediction.us, 1.0);
}

TEST(Predict, KeepsTheFirstOfEquals) {
  ManifestDraft draft;
  draft.params = "T = [64, 32, 128]";
  draft.tables = "[cost]\ncycles = 100\n";
  EXPECT_EQ(predict(*draft.build(), mix_problem(8, 8), sample_device()).config, (Config{{"T", 64}}));
}

TEST(Predict, WithoutACostModelAnswersTheDefaultAndNoTime) {
  const Prediction prediction = predict(*ManifestDraft{}.build(), mix_problem(8, 8), sample_device());
  EXPECT_EQ(prediction.config, (Config{{"T", 64}}));
  EXPECT_EQ(prediction.us, 0);
}

TEST(Predict, WhereNoListedValueIsLegalAnswersTheDefault) {
  ManifestDraft draft;
  draft.params = "T = [128]";
  draft.tables = "[require]\n\"T < 100\" = \"a limit\"\n[cost]\ncycles = \"T * 1500\"\n";
  const Prediction prediction = predict(*draft.build(), mix_problem(8, 8), sample_device());
  EXPECT_EQ(prediction.config, (Config{{"T", 64}}));
  EXPECT_DOUBLE_EQ(prediction.us, 64.0);
}

TEST(Predict, AnswersForEveryEmbeddedGemmTemplate) {
  const TemplateSet set;
  const std::shared_ptr<const OpSpec> gemm = set.find_op("gemm");
  const cuda::DeviceInfo device = sample_device();
  for (const std::int64_t m : {0, 1, 17, 4096}) {
    const Problem problem = complete(*gemm, Problem{.op = "gemm",
                                                    .dims = {{"M", m}, {"N", 4096}, {"K", 4096}},
                                                    .dtypes = {{"a", bf16}},
                                                    .choices = {},
                                                    .alignments = {}});
    for (const TemplatePtr& t : set.of_op("gemm")) {
      if (!rejection(*t, problem, device).empty()) continue;
      EXPECT_GT(predict(*t, problem, device).us, 0) << t->manifest.name << " at M=" << m;
    }
  }
}

TEST(Rung, EveryNameIsItsOwn) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Rung::fallback); ++i) names.insert(to_string(static_cast<Rung>(i)));
  EXPECT_EQ(names.size(), 6U);
  EXPECT_THAT(names, Not(Contains("unknown")));
}

}  // namespace
}  // namespace kiln
