#include "tuner/replay.h"

#include <gtest/gtest.h>

#include "kiln/error.h"
#include "tests/tuner/fictional_device.h"

namespace kiln::tuner {
namespace {

class ReplayTest : public testing::Test {
 protected:
  // Trials of every candidate of a problem, as an exhaustive search leaves them.
  void search_exhaustively(std::int64_t n) {
    lab.problem.dims["N"] = n;
    lab.options.search = SearchKind::exhaustive;
    lab.run();
  }
  std::vector<Replay> replay() { return replay_searches(lab.templates, lab.store, lab.problem.op, lab.gpu, options); }

  FictionalLab lab;
  ReplayOptions options{.fewest_known = 1};
};

TEST_F(ReplayTest, TheSearchSeesTheStoredTimes) {
  lab.device.time_us = landscape_us;
  search_exhaustively(1 << 20);
  const std::vector<Replay> replays = replay();
  ASSERT_EQ(replays.size(), 1U);
  EXPECT_GT(replays[0].known, options.max_candidates / 2);
  EXPECT_LE(replays[0].tried, options.max_candidates);
  EXPECT_EQ(replays[0].unknown, 0U);
  EXPECT_DOUBLE_EQ(replays[0].best_us, 10);
  EXPECT_EQ(replays[0].found, replays[0].best);
  EXPECT_DOUBLE_EQ(replays[0].found_of_best(), 1);
  EXPECT_DOUBLE_EQ(replays[0].model_of_best(), 1);
}

TEST_F(ReplayTest, OneCandidateIsTheFirstThatASearchWouldTry) {
  // The model's favourite is slow here, so that a search of one candidate misses the best.
  lab.device.time_us = [](const Candidate& candidate) {
    return candidate.template_name == "toy_unrolled" && candidate.config.at("UNROLL") == 4 ? 40.0
                                                                                           : landscape_us(candidate);
  };
  search_exhaustively(1 << 20);
  const std::vector<Replay> whole = replay();
  options.max_candidates = 1;
  const std::vector<Replay> one = replay();
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].tried, 1U);
  EXPECT_LT(one[0].found_of_best(), whole.at(0).found_of_best());
  EXPECT_LT(one[0].model_of_best(), 1);
}

TEST_F(ReplayTest, AProposalWithoutATrialIsAFailure) {
  // A default search leaves most of the space unmeasured.
  lab.device.time_us = landscape_us;
  lab.options.max_candidates = 3;
  lab.run();
  options.max_candidates = 12;
  const std::vector<Replay> replays = replay();
  ASSERT_EQ(replays.size(), 1U);
  EXPECT_EQ(replays[0].known, 3U);
  EXPECT_EQ(replays[0].unknown, replays[0].tried - 3);
  EXPECT_GT(replays[0].unknown, 0U);
  options.fewest_known = 4;
  EXPECT_TRUE(replay().empty()) << "what else there was to find is not known";
}

TEST_F(ReplayTest, ASearchMayStartFromTheWinnerOfTheProblemBefore) {
  lab.options.resume = lab.options.reuse_trials = false;
  search_exhaustively(1000);
  options.max_candidates = 1;
  const std::string tried_first = replay().at(0).found;
  const auto is = [](const Candidate& candidate, const std::string& name) {
    return describe(candidate.template_name, candidate.config) == name;
  };
  lab.device.time_us = [&](const Candidate& candidate) { return is(candidate, tried_first) ? 50.0 : 30.0; };
  search_exhaustively(1000);
  options.max_candidates = 2;
  const std::string winner = replay().at(0).found;
  ASSERT_NE(winner, tried_first);
  // It wins the next problem too, but there the first candidate is so much slower that a search turns elsewhere.
  lab.device.time_us = [&](const Candidate& candidate) {
    return is(candidate, winner) ? 5.0 : is(candidate, tried_first) ? 1e6 : 40.0;
  };
  search_exhaustively(1100);
  EXPECT_LT(replay().at(1).found_of_best(), 1);
  options.near_winners = 1;
  EXPECT_DOUBLE_EQ(replay().at(1).found_of_best(), 1);
}

TEST_F(ReplayTest, AnOpThatThereIsNotIsAnError) {
  EXPECT_THROW(replay_searches(lab.templates, lab.store, "gemv", lab.gpu, options), Error);
}

}  // namespace
}  // namespace kiln::tuner
