#include "kernel/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;

cuda::DeviceInfo device_of(int major, int minor) {
  cuda::DeviceInfo device = sample_device();
  device.cc_major = major;
  device.cc_minor = minor;
  return device;
}

std::string target(const std::string& arch, int major, int minor) {
  ManifestDraft draft;
  draft.arch = arch;
  return target_arch(*draft.build(), device_of(major, minor));
}

TEST(TargetArch, APlusServesThatAndEveryLaterArchitecture) {
  EXPECT_EQ(target(R"(["sm_80+"])", 7, 5), "");
  EXPECT_EQ(target(R"(["sm_80+"])", 8, 0), "sm_80");
  EXPECT_EQ(target(R"(["sm_80+"])", 8, 9), "sm_89");
  EXPECT_EQ(target(R"(["sm_80+"])", 9, 0), "sm_90");
  EXPECT_EQ(target(R"(["sm_80+"])", 12, 0), "sm_120");
}

TEST(TargetArch, AnAServesExactlyThatArchitecture) {
  EXPECT_EQ(target(R"(["sm_90a"])", 8, 9), "");
  EXPECT_EQ(target(R"(["sm_90a"])", 9, 0), "sm_90a");
  EXPECT_EQ(target(R"(["sm_90a"])", 10, 0), "");
}

TEST(TargetArch, APlainOneServesLaterMinorVersionsOfItsMajor) {
  EXPECT_EQ(target(R"(["sm_86"])", 8, 0), "");
  EXPECT_EQ(target(R"(["sm_86"])", 8, 6), "sm_86");
  EXPECT_EQ(target(R"(["sm_86"])", 8, 9), "sm_89");
  EXPECT_EQ(target(R"(["sm_86"])", 9, 0), "");
}

TEST(TargetArch, AnFServesItsFamilyAndKeepsItsFeatures) {
  EXPECT_EQ(target(R"(["sm_100f"])", 10, 0), "sm_100f");
  EXPECT_EQ(target(R"(["sm_100f"])", 10, 3), "sm_100f");
  EXPECT_EQ(target(R"(["sm_100f"])", 12, 0), "");
}

TEST(TargetArch, TheFirstEntryThatServesIsTaken) {
  EXPECT_EQ(target(R"(["sm_90a", "sm_80+"])", 9, 0), "sm_90a");
  EXPECT_EQ(target(R"(["sm_90a", "sm_80+"])", 10, 0), "sm_100");
  EXPECT_EQ(target(R"(["sm_80+", "sm_90a"])", 9, 0), "sm_90");
}

class Rejection : public testing::Test {
 protected:
  ManifestDraft draft;
  Problem problem = mix_problem(64, 32);
  std::string reason(const cuda::DeviceInfo& device = sample_device()) const {
    return rejection(*draft.build(), problem, device);
  }
};

TEST_F(Rejection, IsEmptyForWhatTheTemplateTakes) { EXPECT_EQ(reason(), ""); }

TEST_F(Rejection, NamesTheArchitectures) {
  draft.arch = R"(["sm_90a", "sm_100a"])";
  EXPECT_EQ(reason(device_of(8, 6)), "runs on sm_90a, sm_100a, not on compute capability 8.6");
}

TEST_F(Rejection, NamesTheDTypeThatNoRuleTakes) {
  draft.top = "[[accept]]\nx = [\"f16\", \"f32\"]";
  EXPECT_EQ(reason(), "does not take x=bf16");
  problem = mix_problem(64, 32, f32);
  EXPECT_EQ(reason(), "");
}

TEST_F(Rejection, OneRuleThatTakesTheProblemIsEnough) {
  draft.top = "[[accept]]\nx = [\"f32\"]\n[[accept]]\nx = [\"bf16\"]\ny = [\"f32\"]";
  EXPECT_EQ(reason(), "does not take y=bf16");
  problem.dtypes["y"] = f32;
  EXPECT_EQ(reason(), "");
}

TEST_F(Rejection, ARuleMayAskForEqualDTypes) {
  draft.top = "[[accept]]\ny = \"=x\"";
  EXPECT_EQ(reason(), "");
  problem.dtypes["y"] = f32;
  EXPECT_EQ(reason(), "does not take y=f32 with x=bf16");
  draft.top = "[[accept]]\ny = [\"=x\", \"f32\"]";
  EXPECT_EQ(reason(), "");
}

TEST_F(Rejection, GivesTheReasonOfARequirementOfTheProblem) {
  draft.top = "[require_problem]\n\"align_x >= 32\" = \"wide loads\"\n\"M <= sm_count\" = \"one row for each SM\"";
  EXPECT_EQ(reason(), "wide loads (align_x >= 32)");
  problem.alignments["x"] = 32;
  EXPECT_EQ(reason(), "");
  problem.dims["M"] = 101;
  EXPECT_EQ(reason(), "one row for each SM (M <= sm_count)");
}

TEST_F(Rejection, AVariationIsTakenOnlyWhereTheManifestHandlesIt) {
  const std::string choice = "[op.choices]\n";
  draft.op.insert(draft.op.find(choice) + choice.size(),
                  "finish = { values = [\"plain\", \"polished\"], omit_default = true }\n");
  EXPECT_EQ(reason(), "");
  problem.choices["finish"] = "polished";
  EXPECT_EQ(reason(), "does not take finish=polished");
  draft.top = "handles = [\"finish\"]";
  EXPECT_EQ(reason(), "");
}

TEST_F(Rejection, ARequirementThatCannotBeEvaluatedRejects) {
  draft.top = "[require_problem]\n\"M % N == 0\" = \"whole rows\"";
  EXPECT_EQ(reason(), "");
  problem = mix_problem(64, 0);
  EXPECT_THAT(reason(), AllOf(HasSubstr("'M % N == 0'"), HasSubstr("division by zero")));
}

TEST(PredictedUs, IsTheCostsCyclesAtTheDevicesClock) {
  ManifestDraft draft;
  draft.tables = "[let]\nper = \"M / T\"\n[cost]\ncycles = \"per * 1500\"";
  EXPECT_DOUBLE_EQ(predicted_us(*draft.build(), mix_problem(640, 4), {{"T", 64}}, sample_device()), 10.0);
  EXPECT_DOUBLE_EQ(predicted_us(*draft.build(), mix_problem(640, 4), {{"T", 32}}, sample_device()), 20.0);
}

TEST(PredictedUs, IsZeroWithoutACostModel) {
  EXPECT_EQ(predicted_us(*ManifestDraft{}.build(), mix_problem(640, 4), {{"T", 64}}, sample_device()), 0);
}

TEST(PredictedUs, SurvivesADeviceOfUnknownClock) {
  ManifestDraft draft;
  draft.tables = "[cost]\ncycles = \"T\"";
  cuda::DeviceInfo device = sample_device();
  device.clock_mhz = 0;
  EXPECT_EQ(predicted_us(*draft.build(), mix_problem(8, 4), {{"T", 64}}, device), 64);
}

}  // namespace
}  // namespace kiln
