#include "tuner/gpu_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/gpu_profiles.h"
#include "kiln/error.h"

namespace kiln::tuner {
namespace {

cuda::DeviceInfo device(int ordinal, const char* uuid) {
  cuda::DeviceInfo info = *cache::gpu_profile("h200");
  info.ordinal = ordinal;
  info.uuid = uuid;
  return info;
}

class GpuChoiceTest : public testing::Test {
 protected:
  std::vector<cuda::DeviceInfo> here{device(0, "GPU-aaaa-1"), device(1, "GPU-aaaa-2"), device(2, "GPU-bbbb-3")};
};

TEST_F(GpuChoiceTest, IndexUuidAndItsStartNameADeviceOfThisMachine) {
  EXPECT_EQ(choose_gpu("", here).device.ordinal, 0);
  EXPECT_EQ(choose_gpu("1", here).device.ordinal, 1);
  EXPECT_EQ(choose_gpu("GPU-aaaa-2", here).device.ordinal, 1);
  EXPECT_EQ(choose_gpu("GPU-b", here).device.ordinal, 2);
  EXPECT_THROW(choose_gpu("GPU-aaaa", here), Error);
}

TEST_F(GpuChoiceTest, AProfileIsADeviceHereOnlyWhereOneIsOfItsClass) {
  EXPECT_TRUE(choose_gpu("h200", here).is_here);
  const GpuChoice l4 = choose_gpu("l4", here);
  EXPECT_FALSE(l4.is_here);
  EXPECT_EQ(l4.device.cc_major, 8);
  EXPECT_FALSE(choose_gpu("h200", {}).is_here);
}

TEST_F(GpuChoiceTest, AnUnknownNameListsWhatThereIs) {
  try {
    choose_gpu("h2000", here);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_device);
    EXPECT_THAT(error.what(), testing::HasSubstr("GPU-bbbb-3"));
    EXPECT_THAT(error.what(), testing::HasSubstr("h200"));
  }
  EXPECT_THROW(choose_gpu("", {}), Error);
}

}  // namespace
}  // namespace kiln::tuner
