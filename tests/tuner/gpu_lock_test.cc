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
  std::optional<GpuLock> first(std::in_place, uuid, milliseconds(0), nullptr, folder);
  std::string told;
  try {
    const GpuLock second(
        uuid, milliseconds(120), [&](const std::string& message) { told = message; }, folder);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("process " + std::to_string(getpid())));
  }
  EXPECT_THAT(told, testing::HasSubstr("process " + std::to_string(getpid())));
  first.reset();
  const GpuLock third(uuid, milliseconds(0), nullptr, folder);
  std::filesystem::remove(folder / ("kiln-" + uuid + ".lock"));
}

TEST(GpuLockTest, AFolderThatCannotBeUsedIsAnError) {
  EXPECT_THROW(GpuLock("GPU-x", milliseconds(0), nullptr, "/nonexistent"), Error);
}

}  // namespace
}  // namespace kiln::tuner
