#include "kernel/launch_plan.h"

#include <cstddef>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LaunchPlanTest : public testing::Test {
 protected:
  ManifestDraft draft;
  Problem problem = mix_problem(1000, 16);
  Config config{{"T", 64}};
  cuda::DeviceInfo device = sample_device();

  LaunchPlan plan() const {
    const auto t = draft.build();
    return build_plan(*t, t->manifest.launches, problem, config, device, EncodeMaps::no);
  }
  PlannedLaunch launch() const { return plan().launches.at(0); }
  PlannedLaunch launch_of(const std::string& lines) {
    draft.launch = "kernel = \"k\"\n" + lines;
    return launch();
  }
  std::string refusal() const {
    return message_of(ErrorCode::invalid_argument, [this] { static_cast<void>(plan()); });
  }
  std::string refusal_of(const std::string& lines) {
    draft.launch = "kernel = \"k\"\n" + lines;
    return refusal();
  }
};

template <class T>
T read_at(const PlannedLaunch& launch, std::size_t offset) {
  T value{};
  EXPECT_LE(offset + sizeof(T), launch.arguments.size());
  std::memcpy(&value, launch.arguments.data() + offset, sizeof(T));
  return value;
}

TEST_F(LaunchPlanTest, EvaluatesGridBlockClusterAndSharedMemory) {
  const PlannedLaunch planned = launch_of(
      "grid = [\"align(ceil_div(M, T), 2)\", \"N\", 3]\nblock = [\"T\", 2]\ncluster = [2, 4]\nshared = \"T * "
      "100\"\npdl = \"T > 1\"");
  EXPECT_THAT(planned.grid, ElementsAre(16U, 16U, 3U));
  EXPECT_THAT(planned.block, ElementsAre(64U, 2U, 1U));
  EXPECT_THAT(planned.cluster, ElementsAre(2U, 4U, 1U));
  EXPECT_EQ(planned.shared_bytes, 6400U);
  EXPECT_TRUE(planned.pdl);
}

TEST_F(LaunchPlanTest, WhatIsNotGivenIsOneBlockOfNoSharedMemory) {
  const PlannedLaunch planned = launch();
  EXPECT_THAT(planned.grid, ElementsAre(16U, 1U, 1U));
  EXPECT_THAT(planned.cluster, ElementsAre(1U, 1U, 1U));
  EXPECT_EQ(planned.shared_bytes, 0U);
  EXPECT_FALSE(planned.pdl);
}

TEST_F(LaunchPlanTest, LaunchesWhoseConditionIsFalseAreLeftOut) {
  draft.launch =
      "kernel = \"a\"\nwhen = \"T > 64\"\ngrid = 1\nblock = 1\n"
      "[[launch]]\nkernel = \"b\"\nwhen = \"T == 64\"\ngrid = 1\nblock = 1\n"
      "[[launch]]\nkernel = \"c\"\ngrid = 2\nblock = 1";
  const LaunchPlan planned = plan();
  ASSERT_EQ(planned.launches.size(), 2U);
  EXPECT_EQ(planned.launches[0].kernel_index, 1U);
  EXPECT_EQ(planned.launches[1].kernel_index, 2U);
}

TEST_F(LaunchPlanTest, AConditionGuardsTheExtentsBehindIt) {
  problem = mix_problem(1000, 0);
  draft.launch = "kernel = \"a\"\nwhen = \"N > 0\"\ngrid = [\"N\"]\nblock = 1";
  EXPECT_THAT(plan().launches, IsEmpty());
}

TEST_F(LaunchPlanTest, AnExtentOutOfRangeIsNamedWithItsValue) {
  EXPECT_THAT(refusal_of("grid = [\"M - 1000\"]\nblock = 1"),
              AllOf(HasSubstr("mix_fast: launch[0].grid"), HasSubstr("'M - 1000' is 0"), HasSubstr("1 to 2147483647"),
                    HasSubstr("use `when`")));
  EXPECT_THAT(refusal_of("grid = [\"M * 4000000\"]\nblock = 1"),
              HasSubstr("is 4000000000; allowed are 1 to 2147483647"));
  EXPECT_THAT(refusal_of("grid = [1, 65536]\nblock = 1"), HasSubstr("'65536' is 65536; allowed are 1 to 65535"));
  EXPECT_THAT(refusal_of("grid = [1, 1, 65536]\nblock = 1"), HasSubstr("allowed are 1 to 65535"));
  EXPECT_THAT(refusal_of("grid = 1\nblock = [\"0 - T\"]"), AllOf(HasSubstr("launch[0].block"), HasSubstr("is -64")));
}

TEST_F(LaunchPlanTest, TheLargestExtentsAreAllowed) {
  EXPECT_THAT(launch_of("grid = [2147483647, 65535, 65535]\nblock = [1024]").grid,
              ElementsAre(2147483647U, 65535U, 65535U));
  EXPECT_THAT(launch_of("grid = 1\nblock = [1, 1024]").block, ElementsAre(1U, 1024U, 1U));
  EXPECT_THAT(launch_of("grid = 1\nblock = [16, 1, 64]").block, ElementsAre(16U, 1U, 64U));
}

TEST_F(LaunchPlanTest, ABlockHasAtMost1024Threads) {
  EXPECT_THAT(refusal_of("grid = 1\nblock = 1025"), HasSubstr("1 to 1024"));
  EXPECT_THAT(refusal_of("grid = 1\nblock = [32, 33]"), AllOf(HasSubstr("launch[0].block"), HasSubstr("1024 threads")));
  EXPECT_THAT(refusal_of("grid = 1\nblock = [1024, 1024, 64]"), HasSubstr("1024 threads"));
}

TEST_F(LaunchPlanTest, ABlockIsAtMost64ThreadsDeep) {
  EXPECT_THAT(refusal_of("grid = 1\nblock = [1, 1, 65]"), AllOf(HasSubstr("launch[0].block"), HasSubstr("1 to 64")));
}

TEST_F(LaunchPlanTest, TheGridIsAMultipleOfTheCluster) {
  EXPECT_THAT(refusal_of("grid = 15\nblock = 1\ncluster = 2"),
              AllOf(HasSubstr("launch[0].grid"), HasSubstr("dimension 0 is 15"), HasSubstr("the cluster's 2")));
  EXPECT_THAT(refusal_of("grid = [2, 3]\nblock = 1\ncluster = [2, 2]"), HasSubstr("dimension 1 is 3"));
}

TEST_F(LaunchPlanTest, AClusterHasAtMost16Blocks) {
  EXPECT_THAT(refusal_of("grid = 17\nblock = 1\ncluster = 17"),
              AllOf(HasSubstr("launch[0].cluster"), HasSubstr("1 to 16")));
  EXPECT_THAT(refusal_of("grid = [8, 8]\nblock = 1\ncluster = [8, 4]"),
              AllOf(HasSubstr("launch[0].cluster"), HasSubstr("32 blocks")));
  EXPECT_THAT(launch_of("grid = [8, 8]\nblock = 1\ncluster = [8, 2]").cluster, ElementsAre(8U, 2U, 1U));
}

TEST_F(LaunchPlanTest, SharedMemoryIsWhatTheDeviceAllows) {
  EXPECT_EQ(launch_of("grid = 1\nblock = 1\nshared = \"smem_per_block\"").shared_bytes, 232448U);
  EXPECT_THAT(refusal_of("grid = 1\nblock = 1\nshared = \"smem_per_block + 1\""),
              AllOf(HasSubstr("launch[0].shared"), HasSubstr("is 232449 bytes"), HasSubstr("0 to 232448")));
  EXPECT_THAT(refusal_of("grid = 1\nblock = 1\nshared = \"0 - 1\""), HasSubstr("is -1 bytes"));
}

// What the kernel's parameters look like to the device compiler.
struct Inner {
  std::int32_t first;
  std::int64_t wide;
  std::uint32_t narrow;
  void* pointer;
  float alpha;
};

TEST_F(LaunchPlanTest, AStructIsLaidOutAsCxxLaysItOut) {
  const PlannedLaunch planned = launch_of(R"(grid = 1
block = 1
args = [{ value = 7, type = "i32" }, { struct = [{ value = "0 - M", type = "i32" }, { value = "M * 5000000000" },
        { value = 4294967295, type = "u32" }, { pointer = "y" }, { scalar = "alpha" }] },
        { value = 9, type = "i32" }])");
  ASSERT_THAT(planned.argument_offsets, ElementsAre(0U, 8U, 8U + sizeof(Inner)));
  EXPECT_EQ(planned.arguments.size(), 8 + sizeof(Inner) + 4);
  EXPECT_EQ(read_at<std::int32_t>(planned, 0), 7);
  EXPECT_EQ(read_at<std::int32_t>(planned, 8 + offsetof(Inner, first)), -1000);
  EXPECT_EQ(read_at<std::int64_t>(planned, 8 + offsetof(Inner, wide)), 5'000'000'000'000);
  EXPECT_EQ(read_at<std::uint32_t>(planned, 8 + offsetof(Inner, narrow)), 4294967295U);
  EXPECT_EQ(read_at<std::int32_t>(planned, 8 + sizeof(Inner)), 9);
  ASSERT_EQ(planned.patches.size(), 2U);
  EXPECT_EQ(planned.patches[0].offset, 8 + offsetof(Inner, pointer));
  EXPECT_EQ(planned.patches[1].offset, 8 + offsetof(Inner, alpha));
}

TEST_F(LaunchPlanTest, AStructOfNarrowFieldsIsNotPaddedToEight) {
  const PlannedLaunch planned = launch_of(R"(grid = 1
block = 1
args = [{ struct = [{ value = 1, type = "i32" }, { value = 2, type = "u32" }, { scalar = "alpha" }] },
        { value = 3, type = "u32" }])");
  EXPECT_THAT(planned.argument_offsets, ElementsAre(0U, 12U));
  EXPECT_EQ(planned.arguments.size(), 16U);
  EXPECT_EQ(planned.patches.at(0).offset, 8U);
}

TEST_F(LaunchPlanTest, EachParameterHasItsOwnAlignment) {
  draft.tables = "[tensor_map.m]\noperand = \"x\"\ndims = [\"N\", \"M\"]\nstrides = [\"N\"]\nbox = [8, 8]\n";
  const PlannedLaunch planned = launch_of(R"(grid = 1
block = 1
args = [{ value = 1, type = "i32" }, { pointer = "x" }, { value = 2, type = "i32" }, { map = "m" }, { value = 3 }])");
  EXPECT_THAT(planned.argument_offsets, ElementsAre(0U, 8U, 16U, 64U, 192U));
  EXPECT_EQ(sizeof(CUtensorMap), 128U);
  EXPECT_EQ(read_at<std::int64_t>(planned, 192), 3);
}

TEST_F(LaunchPlanTest, PointersScalarsMapsAndWorkspacesAreLeftToBePatched) {
  draft.tables = R"([workspace.a]
bytes = 100
[workspace.b]
bytes = "M"
[tensor_map.m]
operand = "y"
dims = ["N"]
box = [8]
[tensor_map.w]
workspace = "b"
dtype = "f32"
dims = ["N"]
box = [8]
)";
  const PlannedLaunch planned = launch_of(R"(grid = 1
block = 1
args = [{ pointer = "y" }, { scalar = "alpha" }, { scalar = "count" }, { workspace = "b" },
        { map = "m" }, { map = "w" }])");
  ASSERT_EQ(planned.patches.size(), 6U);
  EXPECT_EQ(planned.patches[0].kind, Patch::Kind::pointer);
  EXPECT_EQ(planned.patches[0].index, 1);
  EXPECT_EQ(planned.patches[1].kind, Patch::Kind::scalar);
  EXPECT_EQ(planned.patches[1].index, 0);
  EXPECT_EQ(planned.patches[1].bytes, 4);
  EXPECT_EQ(planned.patches[2].index, 1);
  EXPECT_EQ(planned.patches[2].bytes, 8);
  EXPECT_EQ(planned.patches[3].kind, Patch::Kind::workspace);
  EXPECT_EQ(planned.patches[3].addend, 256U);
  EXPECT_EQ(planned.patches[4].kind, Patch::Kind::map);
  EXPECT_EQ(planned.patches[4].index, 1);
  EXPECT_EQ(planned.patches[5].kind, Patch::Kind::map_workspace);
  EXPECT_EQ(planned.patches[5].addend, 256U);
}

TEST_F(LaunchPlanTest, AValueThatDoesNotFitItsTypeIsRefused) {
  const auto with = [this](const std::string& value, const std::string& type) {
    draft.launch =
        "kernel = \"k\"\ngrid = 1\nblock = 1\nargs = [{ value = \"" + value + "\", type = \"" + type + "\" }]";
  };
  for (const auto& [value, type] : std::map<std::string, std::string>{{"2147483648", "i32"},
                                                                      {"0 - 2147483649", "i32"},
                                                                      {"4294967296", "u32"},
                                                                      {"0 - 1", "u32"},
                                                                      {"0 - 2", "u64"}}) {
    with(value, type);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("launch[0].args"), HasSubstr("'" + value + "'"), HasSubstr("does not fit")));
  }
  for (const auto& [value, type] : std::map<std::string, std::string>{
           {"2147483647", "i32"}, {"0 - 2147483648", "i32"}, {"4294967295", "u32"}, {"0 - 1", "i64"}}) {
    with(value, type);
    EXPECT_NO_THROW(static_cast<void>(plan())) << value;
  }
}

TEST_F(LaunchPlanTest, TooManyArgumentsAreRefused) {
  std::string args = "{ value = 1, type = \"i32\" }";
  for (int i = 1; i < 64; ++i) args += ", { value = 1, type = \"i32\" }";
  EXPECT_EQ(launch_of("grid = 1\nblock = 1\nargs = [" + args + "]").argument_offsets.size(), 64U);
  EXPECT_THAT(refusal_of("grid = 1\nblock = 1\nargs = [" + args + ", { value = 1 }]"),
              AllOf(HasSubstr("launch[0].args"), HasSubstr("65 parameters")));
}

TEST_F(LaunchPlanTest, TooManyBytesOfArgumentsAreRefused) {
  std::string fields = "{ value = 1 }";
  for (int i = 1; i < 513; ++i) fields += ", { value = 1 }";
  EXPECT_THAT(refusal_of("grid = 1\nblock = 1\nargs = [{ struct = [" + fields + "] }]"), HasSubstr("4104 bytes"));
}

TEST_F(LaunchPlanTest, WorkspacesFollowOneAnotherAtAligned256Bytes) {
  draft.tables =
      "[workspace.a]\nbytes = 1\n[workspace.b]\nbytes = \"M\"\nzero = true\n[workspace.c]\nbytes = 0\nzero = true\n"
      "[workspace.d]\nbytes = 256\nzero = true\n";
  const LaunchPlan planned = plan();
  EXPECT_EQ(planned.workspace_bytes, 256U + 1024U + 0U + 256U);
  ASSERT_EQ(planned.zero.size(), 2U);
  EXPECT_EQ(planned.zero[0].offset, 256U);
  EXPECT_EQ(planned.zero[0].bytes, 1000U);
  EXPECT_EQ(planned.zero[1].offset, 1280U);
  EXPECT_EQ(planned.zero[1].bytes, 256U);
}

TEST_F(LaunchPlanTest, WithoutWorkspacesNothingIsAllocatedOrZeroed) {
  EXPECT_EQ(plan().workspace_bytes, 0U);
  EXPECT_THAT(plan().zero, IsEmpty());
}

TEST_F(LaunchPlanTest, ANegativeWorkspaceIsRefused) {
  draft.tables = "[workspace.a]\nbytes = \"N - M\"\n";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("workspace.a.bytes is -984")));
}

TEST_F(LaunchPlanTest, PointersNeedTheAlignmentThatWasPromised) {
  problem.alignments = {{"x", 4}, {"y", 128}};
  EXPECT_THAT(plan().alignment, ElementsAre(4U, 128U));
}

TEST_F(LaunchPlanTest, TheMapOfAnEmptyOperandTakesNoAddress) {
  draft.tables = "[tensor_map.x]\noperand = \"x\"\ndims = [\"max(1, N)\"]\nbox = [8]\n";
  draft.launch = "kernel = \"k\"\ngrid = 1\nblock = 1\nargs = [{ map = \"x\" }]";
  EXPECT_EQ(launch().patches.size(), 1U);
  problem = mix_problem(1000, 0);
  EXPECT_THAT(launch().patches, IsEmpty());
}

TEST_F(LaunchPlanTest, ATensorMapNeeds16ByteAlignedPointers) {
  problem.alignments = {{"x", 4}, {"y", 128}};
  draft.tables =
      "[tensor_map.x]\noperand = \"x\"\ndims = [\"N\"]\nbox = [8]\n[tensor_map.y]\noperand = \"y\"\ndims = "
      "[\"N\"]\nbox = [8]\n";
  draft.launch = "kernel = \"k\"\ngrid = 1\nblock = 1\nargs = [{ map = \"x\" }, { map = \"y\" }]";
  EXPECT_THAT(plan().alignment, ElementsAre(16U, 128U));
}

TEST_F(LaunchPlanTest, AnOperandOfNoElementsIsUntouched) {
  EXPECT_THAT(plan().touched, ElementsAre(true, true));
  problem = mix_problem(1000, 0);
  EXPECT_THAT(plan().touched, ElementsAre(false, false));
}

TEST_F(LaunchPlanTest, AConfigurationOfAnotherTemplateIsRefused) {
  config = {{"BM", 64}};
  EXPECT_THAT(refusal(), HasSubstr("no parameter 'BM'"));
}

}  // namespace
}  // namespace kiln
