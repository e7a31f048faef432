#include "tuner/cover.h"

#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace kiln::tuner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(CoverTest, OneKernelServesAllWhereItIsNearlyTheBest) {
  const std::vector<Server> servers{{"a", {10, 20, 30}}, {"b", {9.9, 20.2, 40}}, {"c", {15, 19.8, 30.1}}};
  EXPECT_EQ(cover(servers, 0.03, 0), (std::vector<std::size_t>{0, 0, 0}));
}

TEST(CoverTest, AsManyKernelsAsTheSlackDemands) {
  const std::vector<Server> servers{{"a", {10, 20, 40}}, {"b", {12, 20.1, 30}}};
  EXPECT_EQ(cover(servers, 0.03, 0), (std::vector<std::size_t>{0, 0, 1}));
  EXPECT_EQ(cover(servers, 0.5, 0), (std::vector<std::size_t>{1, 1, 1})) << "one is enough, the one that loses least";
}

TEST(CoverTest, ConfigurationsOfOneKernelCostNothingMore) {
  // a1 and a2 share a kernel, so both serve where b alone would be one kernel as well, but slower.
  const std::vector<Server> servers{{"a", {10, 99, 30}}, {"b", {10.1, 20.1, 30.1}}, {"a", {50, 20, 50}}};
  EXPECT_EQ(cover(servers, 0.03, 0), (std::vector<std::size_t>{0, 2, 0}));
}

TEST(CoverTest, ASampleKeepsTheServerBeforeItUnlessAnotherIsClearlyFaster) {
  const std::vector<Server> servers{{"a", {10, 20.05, 33}}, {"a", {11, 20, 30}}};
  EXPECT_EQ(cover(servers, 0.05, 0.01), (std::vector<std::size_t>{0, 0, 1}));
  EXPECT_EQ(cover(servers, 0.05, 0), (std::vector<std::size_t>{0, 1, 1}));
}

TEST(CoverTest, WhereNoneCanServeNoneIsChosen) {
  const std::vector<Server> servers{{"a", {10, kNever, kNever}}, {"b", {kNever, kNever, 5}}};
  EXPECT_EQ(cover(servers, 0.03, 0.01), (std::vector<std::size_t>{0, 2, 1}));
  EXPECT_TRUE(cover({}, 0.03, 0).empty());
}

TEST(CoverTest, AKernelThatOthersMakeSpareIsGivenUp) {
  // b serves most at first, but a and c, which the ends need, serve the middle too.
  const std::vector<Server> servers{
      {"a", {10, 10, 10, 99, 99, 99}}, {"b", {99, 10, 10, 10, 10, 99}}, {"c", {99, 99, 99, 10, 10, 10}}};
  std::set<std::size_t> used;
  for (const std::size_t each : cover(servers, 0.03, 0)) used.insert(each);
  EXPECT_EQ(used, (std::set<std::size_t>{0, 2}));
}

}  // namespace
}  // namespace kiln::tuner
