#include "cache/gpu_profiles.h"

#include <set>

#include <gtest/gtest.h>

namespace kiln::cache {
namespace {

TEST(GpuProfiles, AnH200IsWhatItsDriverReports) {
  const auto h200 = gpu_profile("h200");
  ASSERT_TRUE(h200);
  EXPECT_EQ(h200->ordinal, -1);
  EXPECT_EQ(h200->cc_major, 9);
  EXPECT_EQ(h200->cc_minor, 0);
  EXPECT_EQ(h200->sm_count, 132);
  EXPECT_EQ(h200->memory_bytes, std::int64_t{143771} << 20);
  EXPECT_EQ(h200->l2_bytes, 62914560);
  EXPECT_EQ(h200->smem_per_block, 232448);
  EXPECT_EQ(h200->bus_width_bits, 6016);
  EXPECT_EQ(h200->power_limit_watts, 700);
}

TEST(GpuProfiles, SpellingDoesNotMatter) {
  for (const char* name : {"rtx-4090", "RTX 4090", "rtx4090", "GeForce RTX 4090"}) {
    ASSERT_TRUE(gpu_profile(name)) << name;
    EXPECT_EQ(gpu_profile(name)->sm_count, 128);
  }
  EXPECT_FALSE(gpu_profile("rtx-4091"));
  EXPECT_FALSE(gpu_profile(""));
}

TEST(GpuProfiles, EveryListedNameHasAWholeProfile) {
  const std::vector<std::string> names = gpu_profile_names();
  EXPECT_EQ(names.front(), "h200");
  for (const char* wanted : {"h100-sxm", "h100-pcie", "a100-80gb-sxm", "a100-40gb", "l40s", "l4", "rtx-4090",
                             "rtx-3090", "b200", "rtx-5090"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), wanted), names.end()) << wanted;
  }
  for (const std::string& name : names) {
    const auto profile = gpu_profile(name);
    ASSERT_TRUE(profile) << name;
    EXPECT_GE(profile->cc_major, 7) << name;
    EXPECT_GT(profile->smem_per_sm, profile->smem_per_block) << name;
    EXPECT_GT(profile->memory_bytes, std::int64_t{8} << 30) << name;
    EXPECT_GT(profile->power_limit_watts, 0) << name;
    EXPECT_TRUE(profile->uuid.empty()) << name;
  }
}

}  // namespace
}  // namespace kiln::cache
