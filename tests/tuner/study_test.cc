#include "tuner/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tuner/fictional_device.h"

namespace kiln::tuner {
namespace {

class StudyTest : public testing::Test {
 protected:
  StudyTest() { lab.device.time_us = landscape_us; }

  std::vector<StudyRow> study(const std::vector<Problem>& problems) {
    const TuningParts parts{.templates = &lab.templates,
                            .store = &lab.store,
                            .compiler = &lab.compiler,
                            .measurer = &lab.device,
                            .device = lab.gpu,
                            .versions = lab.versions,
                            .presets = lab.presets};
    return run_study(parts, lab.options, problems, lab.observer);
  }
  Problem problem(std::int64_t n) {
    Problem result = lab.problem;
    result.dims["N"] = n;
    return result;
  }

  FictionalLab lab;
};

TEST_F(StudyTest, BothSearchesAndTheModelAreHeldAgainstEachOther) {
  const std::vector<StudyRow> rows = study({problem(1 << 20), problem(12345)});
  ASSERT_EQ(rows.size(), 2U);
  for (const StudyRow& row : rows) {
    EXPECT_EQ(row.failure, "");
    EXPECT_EQ(row.exhaustive.tried, static_cast<int>(row.exhaustive.space_size));
    EXPECT_LE(row.found.tried, lab.options.max_candidates);
    EXPECT_DOUBLE_EQ(row.exhaustive_us, 10);
    EXPECT_DOUBLE_EQ(row.found_of_best(), 1);
    EXPECT_EQ(row.model_config, "BLOCK=256,UNROLL=4");
    EXPECT_DOUBLE_EQ(row.model_of_best(), 1);
  }
  const StudySummary summary = summarise(rows);
  EXPECT_EQ(summary.compared, 2U);
  EXPECT_EQ(summary.worst_loss, 0);
}

TEST_F(StudyTest, TheModelChoosesAmongTheTemplatesAskedForToo) {
  lab.options.templates = {"toy_simple"};
  const std::vector<StudyRow> rows = study({problem(1 << 20)});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].model_template, "toy_simple");
}

TEST_F(StudyTest, AModelThatErrsShowsInItsRowOnly) {
  lab.device.time_us = [](const Candidate& candidate) {
    if (candidate.template_name != "toy_unrolled") return 30.0;
    return candidate.config.at("BLOCK") == 256 && candidate.config.at("UNROLL") == 4 ? 20.0 : landscape_us(candidate);
  };
  const std::vector<StudyRow> rows = study({problem(1 << 20)});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_LT(rows[0].model_of_best(), 0.7);
  EXPECT_DOUBLE_EQ(rows[0].found_of_best(), 1) << "a neighbour of the favourite is found";
}

TEST_F(StudyTest, AFavouriteThatFailsMakesRoomForTheNext) {
  lab.device.faults = {{"toy_unrolled BLOCK=256,UNROLL=4", Fault::crash}};
  const std::vector<StudyRow> rows = study({problem(1 << 20)});
  EXPECT_EQ(rows[0].model_skipped, 1);
  EXPECT_NE(rows[0].model_config, "BLOCK=256,UNROLL=4");
  EXPECT_GT(rows[0].model_us, 0);
}

TEST_F(StudyTest, TheDefaultSearchStartsFromNothing) {
  // What the user's store and the presets say of these very problems is kept from it.
  lab.run();
  Decision shipped = *lab.decision();
  shipped.config = parse_config("BLOCK=64,UNROLL=8");
  lab.presets = {shipped};
  const std::vector<StudyRow> rows = study({lab.problem});
  EXPECT_FALSE(rows[0].found.from_store);
  EXPECT_FALSE(rows[0].exhaustive.from_store);
  EXPECT_GT(rows[0].found.compiled, 0);
}

TEST_F(StudyTest, StoredTrialsAreReusedWhereThatIsAskedFor) {
  lab.options.reuse_trials = false;
  study({problem(1 << 20)});
  std::size_t space = 0;
  const auto measured = [&](bool reuse) {
    lab.options.reuse_trials = reuse;
    lab.device.measured.clear();
    const std::vector<StudyRow> rows = study({problem(1 << 20)});
    space = rows.at(0).exhaustive.space_size;
    EXPECT_EQ(rows[0].exhaustive.tried, static_cast<int>(space));
    EXPECT_DOUBLE_EQ(rows[0].exhaustive_us, 10);
    return lab.device.measured.size();
  };
  const std::size_t anew = measured(false);
  EXPECT_EQ(measured(true) + space, anew);
}

TEST_F(StudyTest, ABudgetEndsIt) {
  lab.device.takes = std::chrono::milliseconds(40);
  lab.options.budget = std::chrono::milliseconds(1500);
  const auto start = std::chrono::steady_clock::now();
  study({problem(1000), problem(2000), problem(3000)});
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 5.0);
}

TEST_F(StudyTest, ForeignWorkMakesNoComparison) {
  lab.device.foreign = true;
  const std::vector<StudyRow> rows = study({problem(1 << 20)});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_THAT(rows[0].failure, testing::HasSubstr("other processes"));
  EXPECT_EQ(summarise(rows).compared, 0U);
}

}  // namespace
}  // namespace kiln::tuner
