#include "cuda/device.h"

#include <cmath>

#include <gtest/gtest.h>

#include "cuda/driver.h"

namespace kiln::cuda {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

DeviceInfo h200() {
  return DeviceInfo{.ordinal = -1,
                    .name = "NVIDIA H200",
                    .uuid = "",
                    .cc_major = 9,
                    .cc_minor = 0,
                    .sm_count = 132,
                    .memory_bytes = 143771 * kMiB,
                    .l2_bytes = 60 * kMiB,
                    .smem_per_sm = 233472,
                    .smem_per_block = 232448,
                    .regs_per_sm = 65536,
                    .threads_per_sm = 2048,
                    .memory_clock_mhz = 3201,
                    .bus_width_bits = 6016,
                    .clock_mhz = 1980,
                    .power_limit_watts = 700,
                    .mig_profile = ""};
}

std::string class_with_memory(std::int64_t mebibytes) {
  DeviceInfo device = h200();
  device.memory_bytes = mebibytes * kMiB;
  return hardware_class(device);
}

TEST(Device, TheArchitectureHasItsOwnFeaturesFromHopperOn) {
  const auto arch = [](int major, int minor) {
    DeviceInfo device;
    device.cc_major = major;
    device.cc_minor = minor;
    return device.arch();
  };
  EXPECT_EQ(arch(7, 5), "sm_75");
  EXPECT_EQ(arch(8, 6), "sm_86");
  EXPECT_EQ(arch(9, 0), "sm_90a");
  EXPECT_EQ(arch(10, 0), "sm_100a");
  EXPECT_EQ(arch(12, 0), "sm_120a");
}

TEST(Device, BandwidthFollowsFromClockAndBus) {
  EXPECT_EQ(h200().dram_gbps(), 4814);
  DeviceInfo ada = h200();  // an RTX 4090
  ada.memory_clock_mhz = 10501;
  ada.bus_width_bits = 384;
  EXPECT_EQ(ada.dram_gbps(), 1008);
}

TEST(Device, TheHardwareClassNamesWhatDecidesPerformance) {
  EXPECT_EQ(hardware_class(h200()), "cc9.0-sm132-mem136g-l2_60m-smem228k/227k-bw4814-pw700");
}

TEST(Device, TheHardwareClassForgetsNames) {
  DeviceInfo other = h200();
  other.name = "GH200 480GB";
  other.uuid = "GPU-1";
  other.ordinal = 5;
  EXPECT_EQ(hardware_class(other), hardware_class(h200()));
}

TEST(Device, AMigInstanceIsAClassOfItsOwn) {
  DeviceInfo slice = h200();
  slice.mig_profile = "1g.18gb";
  EXPECT_EQ(hardware_class(slice), hardware_class(h200()) + "-mig1g.18gb");
}

TEST(Device, WhatEccOrTheDriverReservesDoesNotChangeTheClass) {
  // MiB as sold, and the least that drivers report of it.
  const std::pair<std::int64_t, std::int64_t> sizes[] = {
      {16384, 15900},    // 16 GB
      {24564, 23028},    // 24 GB, with and without ECC
      {32768, 31900},    // 32 GB
      {40960, 39900},    // A100 40 GB
      {49140, 46068},    // L40S, with and without ECC
      {81920, 79300},    // 80 GB
      {98304, 95830},    // H100 NVL, 94 and 96 GB
      {144384, 139500},  // H200
      {196608, 183359},  // B200 and its 192 GB kin
  };
  for (const auto& [sold, reported] : sizes) {
    EXPECT_EQ(class_with_memory(sold), class_with_memory(reported)) << sold;
    EXPECT_EQ(class_with_memory(sold), class_with_memory(sold * 97 / 100)) << sold;
  }
}

TEST(Device, SizesThatAreSoldApartAreClassesApart) {
  EXPECT_NE(class_with_memory(40960), class_with_memory(81920));
  EXPECT_NE(class_with_memory(81559), class_with_memory(95830));
  EXPECT_NE(class_with_memory(81559), class_with_memory(143771));
  EXPECT_NE(class_with_memory(143771), class_with_memory(183359));
}

TEST(Device, PowerLimitsCountInStepsOfFiftyWatts) {
  DeviceInfo capped = h200();
  capped.power_limit_watts = 690;
  EXPECT_EQ(hardware_class(capped), hardware_class(h200()));
  capped.power_limit_watts = 600;
  EXPECT_NE(hardware_class(capped), hardware_class(h200()));
}

TEST(Device, AnUnknownProfileStillHasAClass) {
  EXPECT_EQ(hardware_class(DeviceInfo{}), "cc0.0-sm0-mem0g-l2_0m-smem0k/0k-bw0-pw0");
}

TEST(Device, TheDistanceBetweenClassesIsSymmetricAndZeroForTheSame) {
  DeviceInfo h100 = h200();
  h100.memory_clock_mhz = 2619;
  h100.bus_width_bits = 5120;
  h100.l2_bytes = 50 * kMiB;
  EXPECT_EQ(class_distance(h200(), h200()), 0);
  EXPECT_GT(class_distance(h200(), h100), 0);
  EXPECT_DOUBLE_EQ(class_distance(h200(), h100), class_distance(h100, h200()));
}

TEST(Device, ClassesOfDifferentCapabilityAreInfinitelyFar) {
  DeviceInfo ampere = h200();
  ampere.cc_major = 8;
  EXPECT_TRUE(std::isinf(class_distance(h200(), ampere)));
}

TEST(Device, WhatIsUnknownCountsForNothing) {
  DeviceInfo unmetered = h200();
  unmetered.power_limit_watts = 0;
  EXPECT_EQ(class_distance(h200(), unmetered), 0);
}

TEST(Device, AMissingDeviceIsNamed) {
  if (!driver_available()) GTEST_SKIP() << "this machine has no driver";
  try {
    device_info(4096);
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_device);
    EXPECT_NE(std::string(error.what()).find("4096"), std::string::npos);
  }
}

}  // namespace
}  // namespace kiln::cuda
