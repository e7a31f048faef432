#include "tuner/worker/gpu_lock.h"

#include <unistd.h>

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/error.h"

namespace kiln::tuner {
namespace {

using std::chrono::milliseconds;

TEST(GpuLockTest, ASecondHolderIsToldWhoHasItAndGivesUp) {
  const std::filesystem::path folder = testing::TempDir();
  const std::string uuid = "GPU-test-" + std::to_string(getpid());
  std::optional<GpuLock> first(std::in_place, uuid, GpuLock::Wait{}, folder);
  std::string told;
  try {
    const auto keep = [&](const std::string& message) { told = message; };
    const GpuLock second(uuid, {.limit = milliseconds(120), .told = keep}, folder);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("process " + std::to_string(getpid())));
  }
  EXPECT_THAT(told, testing::HasSubstr("process " + std::to_string(getpid())));
  first.reset();
  const GpuLock third(uuid, {}, folder);
  std::filesystem::remove(folder / ("kiln-" + uuid + ".lock"));
}

TEST(GpuLockTest, AWaitCanBeStopped) {
  const std::filesystem::path folder = testing::TempDir();
  const std::string uuid = "GPU-stop-" + std::to_string(getpid());
  const GpuLock first(uuid, {}, folder);
  try {
    const GpuLock second(uuid, {.limit = std::chrono::minutes(10), .stop = [] { return true; }}, folder);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted);
  }
  std::filesystem::remove(folder / ("kiln-" + uuid + ".lock"));
}

TEST(GpuLockTest, AFolderThatCannotBeUsedIsAnError) { EXPECT_THROW(GpuLock("GPU-x", {}, "/nonexistent"), Error); }

}  // namespace
}  // namespace kiln::tuner
