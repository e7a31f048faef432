#include <algorithm>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "cache/gpu_profiles.h"
#include "kernel/template_set.h"
#include "tuner/search/correction.h"
#include "tuner/search/shortlist.h"
#include "tuner/search/strategy.h"

namespace kiln::tuner {
namespace {

class SearchTest : public testing::Test {
 protected:
  TemplateSet templates{{std::filesystem::path(KILN_TEST_TEMPLATES) / "toy"}};
  cuda::DeviceInfo gpu = *cache::gpu_profile("h200");
  Problem problem =
      complete(*templates.find_op("toy"),
               Problem{.op = "toy", .dims = {{"N", 1 << 20}}, .dtypes = {}, .choices = {}, .alignments = {}});
  SearchSpace space{templates.of_op("toy"), problem, gpu};

  std::size_t point(const char* config) const { return space.find("toy_unrolled", parse_config(config)).value(); }
};

TEST_F(SearchTest, TheSpaceHoldsEveryLegalConfigurationOnce) {
  ASSERT_EQ(space.templates().size(), 2U) << "the reference is no candidate";
  EXPECT_EQ(space.templates()[0]->manifest.name, "toy_unrolled");
  std::set<std::string> names;
  for (const Point& each : space.points()) names.insert(std::to_string(each.kernel_template) + to_text(each.config));
  EXPECT_EQ(names.size(), space.points().size());
  EXPECT_FALSE(space.find("toy_unrolled", parse_config("BLOCK=512,UNROLL=8"))) << "4096 elements are refused";
  EXPECT_EQ(space.points().size(), 15U + 2U);
}

TEST_F(SearchTest, NeighboursDifferInOneParameterByOneLegalStep) {
  std::set<std::size_t> near;
  for (const std::size_t each : space.neighbours(point("BLOCK=512,UNROLL=4"))) near.insert(each);
  EXPECT_EQ(near, (std::set<std::size_t>{point("BLOCK=256,UNROLL=4"), point("BLOCK=512,UNROLL=2")}));
}

TEST_F(SearchTest, PointsWithoutAPredictionRankLast) {
  const std::vector<std::size_t> order = space.by_prediction();
  EXPECT_EQ(order.front(), point("BLOCK=256,UNROLL=4"));
  EXPECT_EQ(space.template_of(order.back()).manifest.name, "toy_simple");
}

TEST_F(SearchTest, AShortlistStartsWithWhatIsKnownAndVaries) {
  const std::vector<std::size_t> first{point("BLOCK=64,UNROLL=8")};
  const std::vector<std::size_t> list = shortlist(space, first, 6);
  ASSERT_EQ(list.size(), 6U);
  EXPECT_EQ(list[0], first[0]);
  EXPECT_EQ(list[1], point("BLOCK=64,UNROLL=1")) << "the default is always a candidate";
  EXPECT_EQ(std::set<std::size_t>(list.begin(), list.end()).size(), 6U);
  EXPECT_NE(std::find(list.begin(), list.end(), point("BLOCK=256,UNROLL=4")), list.end());
}

TEST_F(SearchTest, EveryStrategyIsDeterministicAndProposesNothingTwice) {
  for (const SearchKind kind :
       {SearchKind::automatic, SearchKind::exhaustive, SearchKind::random, SearchKind::evolve}) {
    std::vector<std::size_t> runs[2];
    for (std::vector<std::size_t>& proposed : runs) {
      const auto strategy = make_strategy(space, {.kind = kind, .max_candidates = 12, .seed = 7, .seeds = {}});
      History history;
      for (int turn = 0; turn < 20; ++turn) {
        const std::vector<std::size_t> batch = strategy->propose(history, 12);
        if (batch.empty()) break;
        for (const std::size_t each : batch) {
          EXPECT_FALSE(history.tried(each));
          history.record(each, 10.0 + static_cast<double>(each % 5));
          proposed.push_back(each);
        }
      }
      EXPECT_EQ(std::set<std::size_t>(proposed.begin(), proposed.end()).size(), proposed.size());
    }
    EXPECT_EQ(runs[0], runs[1]) << static_cast<int>(kind);
    if (kind == SearchKind::exhaustive) {
      EXPECT_EQ(runs[0].size(), space.points().size());
    }
  }
}

TEST_F(SearchTest, TheNearestLegalRelativeIsFound) {
  EXPECT_EQ(space.nearest("toy_unrolled", parse_config("BLOCK=128,UNROLL=2"), 0), point("BLOCK=128,UNROLL=2"));
  EXPECT_FALSE(space.nearest("toy_unrolled", parse_config("BLOCK=512,UNROLL=8"), 0));
  const auto relative = space.nearest("toy_unrolled", parse_config("BLOCK=512,UNROLL=8"), 1);
  ASSERT_TRUE(relative);
  EXPECT_EQ(*relative, point("BLOCK=256,UNROLL=8")) << "of those one step away the one predicted fastest";
  EXPECT_FALSE(space.nearest("no_such_template", parse_config("BLOCK=512"), 2));
}

TEST_F(SearchTest, WhatIsUpcomingIsProposedNext) {
  const auto strategy = make_strategy(space, {.kind = SearchKind::exhaustive, .seeds = {}, .batch = 4});
  History history;
  const std::vector<std::size_t> upcoming = strategy->upcoming(history, 4);
  EXPECT_EQ(upcoming, strategy->propose(history, 100));
  for (const std::size_t each : upcoming) history.record(each, 1);
  EXPECT_EQ(strategy->upcoming(history, 100).size(), space.points().size() - 4);
}

TEST_F(SearchTest, AnExhaustiveSearchMayLeaveOutWhatIsPredictedFarSlower) {
  const auto strategy =
      make_strategy(space, {.kind = SearchKind::exhaustive, .seeds = {}, .within = 1.05, .batch = 100});
  const double best = space.points()[space.by_prediction().front()].predicted_us;
  std::size_t kept = 0;
  for (const Point& each : space.points()) kept += each.predicted_us <= 1.05 * best ? 1 : 0;
  ASSERT_LT(kept, space.points().size());
  ASSERT_GT(kept, 2U);
  EXPECT_EQ(strategy->propose({}, 100).size(), kept) << "those without a prediction among them";
}

TEST_F(SearchTest, ACorrectionCarriesAnErrorToPointsThatShareValues) {
  // The model likes UNROLL=4 best, but it is three times as slow as predicted.
  History history;
  const auto predicted = [&](std::size_t each) { return space.points()[each].predicted_us; };
  for (const char* slow : {"BLOCK=256,UNROLL=4", "BLOCK=64,UNROLL=4"})
    history.record(point(slow), 3 * predicted(point(slow)));
  for (const char* right : {"BLOCK=256,UNROLL=1", "BLOCK=64,UNROLL=2"})
    history.record(point(right), predicted(point(right)));
  const Correction correction(space, history);
  const auto ratio = [&](const char* config) {
    return correction.expected_us(point(config), 0) / predicted(point(config));
  };
  EXPECT_NEAR(ratio("BLOCK=256,UNROLL=4"), 3, 0.2) << "what was measured is believed";
  EXPECT_GT(ratio("BLOCK=128,UNROLL=4"), 1.15 * ratio("BLOCK=128,UNROLL=2"));
  EXPECT_LT(correction.expected_us(point("BLOCK=128,UNROLL=8"), 1),
            correction.expected_us(point("BLOCK=128,UNROLL=8"), 0));
}

TEST(HistoryTest, TheBestAreThoseThatDidNotFailInOrder) {
  History history;
  history.record(4, 3.0);
  history.record(2, 1.0);
  history.record(9, std::numeric_limits<double>::infinity());
  history.record(1, 1.0);
  EXPECT_EQ(history.best(5), (std::vector<std::size_t>{1, 2, 4}));
  EXPECT_EQ(history.failures(), 1U);
}

}  // namespace
}  // namespace kiln::tuner
