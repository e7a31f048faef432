#include "kernel/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/config_scope.h"
#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Parameters P0, P1, …, each with `values` values from 1 up.
ManifestDraft digits(int parameters, int values, const std::string& tables) {
  ManifestDraft draft;
  draft.params.clear();
  draft.fallback.clear();
  draft.launch = "kernel = \"kiln::mix\"\ngrid = 1\nblock = 32";
  draft.tables = tables;
  for (int p = 0; p < parameters; ++p) {
    const std::string name = "P" + std::to_string(p);
    draft.params += name + " = [";
    for (int v = 1; v <= values; ++v) draft.params += std::to_string(v) + ", ";
    draft.params += "]\n";
    draft.fallback += name + " = 1\n";
  }
  return draft;
}

Space space_of(const ManifestDraft& draft, const SpaceLimits& limits = {}) {
  return enumerate(*draft.build(), mix_problem(1000, 4), sample_device(), limits);
}

TEST(Space, ListsEveryConfigurationInTheManifestsOrder) {
  ManifestDraft draft;
  draft.params = "U = [2, 1]\nT = [64, 32]";
  draft.fallback = "T = 32\nU = 1";
  const Space space = space_of(draft);
  EXPECT_THAT(space.configs, ElementsAre(Config{{"U", 2}, {"T", 64}}, Config{{"U", 2}, {"T", 32}},
                                         Config{{"U", 1}, {"T", 64}}, Config{{"U", 1}, {"T", 32}}));
  EXPECT_EQ(space.summary.legal, 4U);
  EXPECT_EQ(space.summary.raw_size, 4.0);
  EXPECT_EQ(space.summary.visited, 2U + 4U);
  EXPECT_FALSE(space.summary.truncated);
}

TEST(Space, AConstraintPrunesAsSoonAsWhatItReadsIsBound) {
  const Space space = space_of(digits(6, 10, "[require]\n\"P0 == 3\" = \"only three\""));
  EXPECT_EQ(space.summary.legal, 100'000U);
  EXPECT_EQ(space.summary.visited, 10U + 10U + 100U + 1'000U + 10'000U + 100'000U);
  ASSERT_EQ(space.summary.pruned.size(), 1U);
  EXPECT_EQ(space.summary.pruned[0].pruned, 9U);
  EXPECT_EQ(space.summary.pruned[0].constraint, "P0 == 3");
  EXPECT_EQ(space.summary.pruned[0].reason, "only three");
}

TEST(Space, ALetPassesItsParametersOn) {
  const Space space = space_of(digits(3, 10,
                                      "[let]\nproduct = \"twice * P1\"\ntwice = \"2 * P0\"\n"
                                      "[require]\n\"product == 2\" = \"the first of each\""));
  EXPECT_EQ(space.summary.legal, 10U);
  EXPECT_EQ(space.summary.visited, 10U + 100U + 10U);
  EXPECT_EQ(space.summary.pruned[0].pruned, 99U);
}

TEST(Space, AMillionPointsCostAboutAsMuchAsTheirLegalRemainder) {
  const Space space =
      space_of(digits(6, 10, "[require]\n\"P1 == P0\" = \"a\"\n\"P2 == P1\" = \"b\"\n\"P4 == P3\" = \"c\""));
  EXPECT_EQ(space.summary.raw_size, 1e6);
  EXPECT_EQ(space.summary.legal, 1'000U);
  // By depth: 10, 100, 100 (of 10 pairs), 100 (of 10 triples), 1000, 1000 (of 100).
  EXPECT_EQ(space.summary.visited, 10U + 100U + 100U + 100U + 1'000U + 1'000U);
}

TEST(Space, AConstraintOfTheProblemAloneEndsItBeforeAnyParameter) {
  const Space space = space_of(digits(6, 10, "[require]\n\"M > 5000\" = \"few rows\""));
  EXPECT_THAT(space.configs, IsEmpty());
  EXPECT_EQ(space.summary.visited, 0U);
  EXPECT_EQ(space.summary.pruned[0].pruned, 1U);
}

TEST(Space, AnEmptySpaceSaysWhatEmptiedIt) {
  const Space space = space_of(digits(2, 3, "[require]\n\"P0 < 3\" = \"a\"\n\"P0 + P1 > 9\" = \"b\""));
  EXPECT_THAT(space.configs, IsEmpty());
  EXPECT_FALSE(space.summary.truncated);
  EXPECT_EQ(space.summary.pruned[0].pruned, 1U);
  EXPECT_EQ(space.summary.pruned[1].pruned, 6U);
}

TEST(Space, ATemplateWithoutParametersHasOneConfiguration) {
  const Space space = space_of(digits(0, 0, ""));
  EXPECT_THAT(space.configs, ElementsAre(Config{}));
  EXPECT_EQ(space.summary.raw_size, 1.0);
}

TEST(Space, StoppingAtALimitIsSaid) {
  const ManifestDraft draft = digits(3, 10, "");
  const Space few = space_of(draft, {.max_configs = 7});
  EXPECT_EQ(few.configs.size(), 7U);
  EXPECT_EQ(few.summary.legal, 7U);
  EXPECT_TRUE(few.summary.truncated);
  const Space brief = space_of(draft, {.max_visited = 50});
  EXPECT_EQ(brief.summary.visited, 50U);
  EXPECT_TRUE(brief.summary.truncated);
  EXPECT_GT(brief.configs.size(), 0U);
  EXPECT_LT(brief.configs.size(), 50U);
}

TEST(Space, ALimitThatIsJustMetIsNotStoppingEarly) {
  const ManifestDraft draft = digits(2, 10, "");
  const Space space = space_of(draft, {.max_configs = 100, .max_visited = 110});
  EXPECT_EQ(space.summary.legal, 100U);
  EXPECT_EQ(space.summary.visited, 110U);
  EXPECT_FALSE(space.summary.truncated);
}

TEST(Space, TheScopeHoldsEachConfigurationsValuesAsItIsVisited) {
  const auto t = digits(2, 3, "[let]\nsum = \"P0 + P1\"\n[require]\n\"sum != 4\" = \"not four\"").build();
  ConfigScope bound(*t, mix_problem(1000, 4), sample_device());
  int visited = 0;
  for_each_config(bound, {}, [&](const Config& config) {
    ++visited;
    EXPECT_EQ(bound.scope().get("P0"), config.at("P0"));
    EXPECT_EQ(bound.scope().get("P1"), config.at("P1"));
    EXPECT_EQ(bound.scope().get("sum"), config.at("P0") + config.at("P1"));
  });
  EXPECT_EQ(visited, 6);
}

TEST(Space, AConstraintThatCannotBeEvaluatedIsNamedWithItsTemplate) {
  EXPECT_THAT(message_of(ErrorCode::invalid_expression,
                         [] { space_of(digits(2, 3, "[require]\n\"100 / (P0 - 2) < 5\" = \"a\"")); }),
              AllOf(HasSubstr("template mix_fast"), HasSubstr("'100 / (P0 - 2) < 5'"), HasSubstr("division by zero")));
}

TEST(Space, SeesTheDeviceAndTheProblem) {
  ManifestDraft draft;
  draft.params = "S = [1000, 200000, 300000]";
  draft.fallback = "S = 1000";
  draft.launch = "kernel = \"kiln::mix\"\ngrid = 1\nblock = 32";
  draft.tables = "[require]\n\"S <= smem_per_block && S >= M\" = \"fits\"";
  EXPECT_EQ(space_of(draft).summary.legal, 2U);
}

TEST(IllegalReason, IsEmptyForALegalConfigurationAlsoOutsideTheLists) {
  const auto t = digits(2, 3, "[require]\n\"P0 + P1 <= 10\" = \"small\"").build();
  EXPECT_EQ(illegal_reason(*t, mix_problem(8, 8), {{"P0", 1}, {"P1", 2}}, sample_device()), "");
  EXPECT_EQ(illegal_reason(*t, mix_problem(8, 8), {{"P0", 5}, {"P1", 5}}, sample_device()), "");
}

TEST(IllegalReason, IsThatOfTheFirstBrokenConstraint) {
  const auto t = digits(2, 3, "[require]\n\"P0 <= 10\" = \"first\"\n\"P1 <= 10\" = \"second\"").build();
  EXPECT_EQ(illegal_reason(*t, mix_problem(8, 8), {{"P0", 1}, {"P1", 11}}, sample_device()), "second (P1 <= 10)");
  EXPECT_EQ(illegal_reason(*t, mix_problem(8, 8), {{"P0", 11}, {"P1", 11}}, sample_device()), "first (P0 <= 10)");
}

TEST(IllegalReason, CoversMissingAndUnknownParametersAndValuesThatCannotBeEvaluated) {
  const auto t = digits(2, 3, "[require]\n\"100 / P0 > 1\" = \"a\"").build();
  EXPECT_THAT(illegal_reason(*t, mix_problem(8, 8), {{"P0", 1}}, sample_device()), HasSubstr("'P1'"));
  EXPECT_THAT(illegal_reason(*t, mix_problem(8, 8), {{"P0", 1}, {"P1", 1}, {"P2", 1}}, sample_device()),
              HasSubstr("'P2'"));
  EXPECT_THAT(illegal_reason(*t, mix_problem(8, 8), {{"P0", 0}, {"P1", 1}}, sample_device()),
              HasSubstr("division by zero"));
}

}  // namespace
}  // namespace kiln
