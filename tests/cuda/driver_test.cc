#include "cuda/driver.h"

#include <gtest/gtest.h>

#include "cuda/device.h"
#include "cuda/nvml.h"

namespace kiln::cuda {
namespace {

TEST(Driver, AMissingDriverIsAClearError) {
  if (driver_available()) GTEST_SKIP() << "this machine has a driver";
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      driver();
      FAIL() << "loaded";
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::no_driver || error.code() == ErrorCode::no_device);
      EXPECT_NE(std::string(error.what()).find("libcuda"), std::string::npos) << error.what();
    }
  }
}

TEST(Driver, ListingDevicesWithoutADriverSaysSo) {
  if (driver_available()) GTEST_SKIP() << "this machine has a driver";
  try {
    EXPECT_TRUE(list_devices().empty());  // a driver without a GPU
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_driver);
  }
}

TEST(Driver, SuccessIsNoError) { EXPECT_NO_THROW(check(CUDA_SUCCESS, "cuInit")); }

TEST(Driver, AFailureCarriesItsCallCodeAndNumber) {
  try {
    check(CUDA_ERROR_ILLEGAL_ADDRESS, "cuLaunchKernelEx");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::launch_failed);
    EXPECT_EQ(error.native_code(), 700);
    EXPECT_EQ(error.call(), "cuLaunchKernelEx");
    EXPECT_NE(std::string(error.what()).find("cuLaunchKernelEx: "), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("(700)"), std::string::npos);
    EXPECT_NE(std::string(error.where().file).find("driver_test.cc"), std::string::npos);
  }
}

TEST(Driver, OutOfMemoryAndMissingDevicesHaveTheirOwnCodes) {
  const auto code_of = [](CUresult result) {
    try {
      check(result, "call");
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code_of(CUDA_ERROR_OUT_OF_MEMORY), ErrorCode::out_of_memory);
  EXPECT_EQ(code_of(CUDA_ERROR_NO_DEVICE), ErrorCode::no_device);
  EXPECT_EQ(code_of(CUDA_ERROR_INVALID_DEVICE), ErrorCode::no_device);
  EXPECT_EQ(code_of(CUDA_ERROR_INVALID_VALUE), ErrorCode::launch_failed);
}

TEST(Driver, OnlyErrorsThatPoisonTheContextAreSticky) {
  EXPECT_TRUE(is_sticky(CUDA_ERROR_ILLEGAL_ADDRESS));
  EXPECT_TRUE(is_sticky(CUDA_ERROR_LAUNCH_TIMEOUT));
  EXPECT_TRUE(is_sticky(CUDA_ERROR_ILLEGAL_INSTRUCTION));
  EXPECT_TRUE(is_sticky(CUDA_ERROR_LAUNCH_FAILED));
  EXPECT_FALSE(is_sticky(CUDA_SUCCESS));
  EXPECT_FALSE(is_sticky(CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_FALSE(is_sticky(CUDA_ERROR_INVALID_VALUE));
  EXPECT_FALSE(is_sticky(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
}

TEST(Nvml, AnswersNothingForAnUnknownDevice) {
  EXPECT_FALSE(nvml::sample("GPU-00000000-0000-0000-0000-000000000000"));
  EXPECT_FALSE(nvml::default_power_limit_watts("GPU-00000000-0000-0000-0000-000000000000"));
  EXPECT_FALSE(nvml::max_sm_clock_mhz(""));
  EXPECT_TRUE(nvml::foreign_processes("").empty());
}

TEST(Nvml, DescribesThrottleReasonsInWords) {
  EXPECT_EQ(nvml::describe_throttle(0), "none");
  EXPECT_EQ(nvml::describe_throttle(0x4), "power cap");
  EXPECT_EQ(nvml::describe_throttle(0x4 | 0x20), "power cap, thermal");
  EXPECT_EQ(nvml::describe_throttle(std::uint64_t{1} << 40), "unknown");
}

}  // namespace
}  // namespace kiln::cuda
