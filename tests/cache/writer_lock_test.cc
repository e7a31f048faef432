#include "cache/writer_lock.h"

#include <thread>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "kiln/error.h"
#include "tests/cache/scratch_folder.h"

namespace kiln::cache {
namespace {

using std::chrono::milliseconds;

TEST(WriterLock, OnlyOneHolderAtATime) {
  const ScratchFolder folder;
  WriterLock first(folder.database());
  WriterLock second(folder.database());
  {
    const WriterLock::Held held = first.acquire(milliseconds(0));
    EXPECT_TRUE(held);
    EXPECT_FALSE(second.acquire(milliseconds(0)));
  }
  EXPECT_TRUE(second.acquire(milliseconds(0)));
}

TEST(WriterLock, AMovedHoldIsReleasedOnce) {
  const ScratchFolder folder;
  WriterLock first(folder.database());
  WriterLock second(folder.database());
  WriterLock::Held kept;
  {
    WriterLock::Held held = first.acquire(milliseconds(0));
    kept = std::move(held);
  }
  EXPECT_FALSE(second.acquire(milliseconds(0)));
  kept = WriterLock::Held();
  EXPECT_TRUE(second.acquire(milliseconds(0)));
}

TEST(WriterLock, AWaitEndsInTimeAndNamesTheHolder) {
  const ScratchFolder folder;
  WriterLock first(folder.database());
  WriterLock second(folder.database());
  const WriterLock::Held held = first.acquire(milliseconds(0));
  const Warnings warnings;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(second.acquire(milliseconds(100)));
  EXPECT_FALSE(second.acquire(milliseconds(10)));
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, milliseconds(110));
  EXPECT_LT(waited, std::chrono::seconds(10));
  ASSERT_EQ(warnings.count(), 1u) << "the second time is quiet";
  EXPECT_NE(warnings.all()[0].find("process " + std::to_string(getpid()) + " since"), std::string::npos);
}

TEST(WriterLock, AWaiterGetsItWhenItIsReleased) {
  const ScratchFolder folder;
  WriterLock first(folder.database());
  WriterLock second(folder.database());
  auto held = std::make_unique<WriterLock::Held>(first.acquire(milliseconds(0)));
  std::thread release([&held] {
    std::this_thread::sleep_for(milliseconds(50));
    held.reset();
  });
  EXPECT_TRUE(second.acquire(std::chrono::seconds(20)));
  release.join();
}

TEST(WriterLock, AHolderThatDiesLosesIt) {
  const ScratchFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    WriterLock lock(folder.database());
    const WriterLock::Held held = lock.acquire(milliseconds(0));
    _exit(held ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  WriterLock lock(folder.database());
  EXPECT_EQ(lock.holder().find("process " + std::to_string(child)), 0u);
  EXPECT_TRUE(lock.acquire(milliseconds(0)));
}

TEST(WriterLock, ALinkIsNotFollowed) {
  const ScratchFolder folder;
  std::filesystem::create_symlink(folder.path() / "elsewhere", folder.database().string() + ".lock");
  EXPECT_THROW(WriterLock lock(folder.database()), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "elsewhere"));
}

}  // namespace
}  // namespace kiln::cache
