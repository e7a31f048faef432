#include "cache/presets.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "cache/row_json.h"

namespace kiln::cache {
namespace {

// What the files say, read whole.
std::vector<Decision> written_decisions() {
  std::set<std::filesystem::path> files;  // in the order of their names
  for (const auto& entry : std::filesystem::directory_iterator(KILN_PRESETS)) {
    if (entry.path().extension() == ".json") files.insert(entry.path());
  }
  std::vector<Decision> decisions;
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (Decision& decision : parse_results(text, file.string()).decisions) {
      decision.origin = "preset";
      decisions.push_back(std::move(decision));
    }
  }
  return decisions;
}

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

TEST(Presets, AreWhatTheFilesSayInTheirOrder) {
  const std::vector<Decision> written = written_decisions();
  const std::vector<Decision> shipped = preset_decisions();
  ASSERT_EQ(shipped.size(), written.size());
  EXPECT_FALSE(shipped.empty());
  for (std::size_t i = 0; i < written.size(); ++i) EXPECT_EQ(to_json(shipped[i]), to_json(written[i]));
}

TEST(Presets, ThoseOfAnOpAreItsDecisionsInTheSameOrder) {
  std::vector<Decision> of_gemm = preset_decisions();
  std::erase_if(of_gemm, [](const Decision& decision) { return decision.problem.op != "gemm"; });
  const std::vector<Preset> presets = presets_of("gemm");
  ASSERT_EQ(presets.size(), of_gemm.size());
  for (std::size_t i = 0; i < presets.size(); ++i) {
    EXPECT_EQ(presets[i].hardware_class, of_gemm[i].hardware_class);
    EXPECT_EQ(presets[i].problem, of_gemm[i].problem);
    const std::optional<Decision> decision = presets[i].decision();
    ASSERT_TRUE(decision);
    EXPECT_EQ(to_json(*decision), to_json(of_gemm[i]));
  }
  EXPECT_TRUE(presets_of("gem").empty());
}

}  // namespace
}  // namespace kiln::cache
