#include "cache/presets.h"

#include <set>

#include <gtest/gtest.h>

namespace kiln::cache {
namespace {

TEST(Presets, EveryDecisionIsMeasuredAndSaysItIsAPreset) {
  std::set<std::pair<std::string, std::string>> keys;
  for (const Decision& decision : preset_decisions()) {
    EXPECT_EQ(decision.origin, "preset");
    EXPECT_EQ(decision.evidence, Evidence::measured);
    EXPECT_GT(decision.time_us, 0);
    EXPECT_TRUE(keys.emplace(decision.hardware_class, decision.problem.canonical()).second)
        << "two presets for " << decision.problem.canonical() << " on " << decision.hardware_class;
  }
}

}  // namespace
}  // namespace kiln::cache
