// What the store promises when its writers are killed: a sound file, and every trial it said was stored.
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "cache/maintenance.h"
#include "cache/sqlite_store.h"
#include "tests/cache/scratch_folder.h"
#include "tests/runtime/sample_rows.h"

extern char** environ;

namespace kiln::cache {
namespace {

struct Writer {
  pid_t pid = -1;
  int acknowledged = -1;  // its stdout
};

Writer start_writer(const std::filesystem::path& database, int writer, std::int64_t first, std::int64_t count) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  std::array<std::string, 5> words{KILN_STORE_WRITER, database.string(), std::to_string(writer), std::to_string(first),
                                   std::to_string(count)};
  std::array<char*, 6> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  Writer result;
  if (posix_spawn(&result.pid, KILN_STORE_WRITER, &actions, nullptr, arguments.data(), environ) != 0) result.pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  result.acknowledged = ends[0];
  return result;
}

// Whether the writer has acknowledged a trial within a minute: it is in the midst of writing then.
bool writes(const Writer& writer) {
  pollfd entry{.fd = writer.acknowledged, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 60'000) == 1 && (entry.revents & POLLIN) != 0;
}

// Every number the writer printed, read after its end.
std::vector<std::int64_t> acknowledged_by(const Writer& writer) {
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t length = 0;
  while ((length = read(writer.acknowledged, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(length));
  }
  close(writer.acknowledged);
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    numbers.push_back(std::stoll(text.substr(at, end - at)));
    at = end + 1;
  }
  return numbers;
}

std::set<std::int64_t> stored_trials(Store& store, int writer) {
  std::set<std::int64_t> stored;
  for (const Trial& trial : store.trials("cc9.0-test", sample_problem(writer))) stored.insert(trial.config.at("BM"));
  return stored;
}

TEST(TwoProcesses, StartingColdAtOnceShareOneDatabase) {
  const ScratchFolder folder;
  constexpr int kCount = 40;
  std::array<Writer, 4> writers;
  for (int w = 0; w < 4; ++w) writers[static_cast<std::size_t>(w)] = start_writer(folder.database(), w, 0, kCount);
  for (const Writer& writer : writers) {
    int status = -1;
    waitpid(writer.pid, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(acknowledged_by(writer).size(), static_cast<std::size_t>(kCount));
  }
  const auto store = SqliteStore::open(folder.options());
  for (int w = 0; w < 4; ++w) EXPECT_EQ(stored_trials(*store, w).size(), static_cast<std::size_t>(kCount));
  EXPECT_TRUE(folder.set_aside().empty());
  EXPECT_TRUE(verify(folder.database()).ok());
}

TEST(KillNine, TwoHundredRoundsLoseNoAcknowledgedTrial) {
  const ScratchFolder folder;
  constexpr int kRounds = 200;
  std::mt19937 random(20240607);
  std::uniform_int_distribution<int> pause_ms(1, 50);
  std::array<std::set<std::int64_t>, 4> acknowledged;
  std::array<std::int64_t, 4> next{};

  // A reader all the while: it must never see damage, and never disturb.
  std::atomic<bool> done{false};
  std::thread reader([&] {
    const auto store = SqliteStore::open(folder.options());
    for (std::int64_t n = 0; !done; ++n) {
      store->trials("cc9.0-test", sample_problem(n % 4));
      store->find_cubin("k0-0");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });

  for (int round = 0; round < kRounds; ++round) {
    std::array<Writer, 4> writers;
    for (std::size_t w = 0; w < 4; ++w) {
      writers[w] = start_writer(folder.database(), static_cast<int>(w), next[w], 0);
      ASSERT_GT(writers[w].pid, 0);
    }
    for (const Writer& writer : writers) {
      // Every other round is ended among writes, however slow the machine; the rest wherever it happens to be, which
      // may be while the store is opened.
      if (round % 2 == 0) EXPECT_TRUE(writes(writer)) << "a writer stored nothing";
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms(random)));
      kill(writer.pid, SIGKILL);
    }
    for (std::size_t w = 0; w < 4; ++w) {
      int status = 0;
      waitpid(writers[w].pid, &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "a writer ended by itself: " << status;
      for (const std::int64_t n : acknowledged_by(writers[w])) {
        acknowledged[w].insert(n);
        next[w] = std::max(next[w], n + 1);
      }
    }
  }
  done = true;
  reader.join();

  const VerifyReport report = verify(folder.database());
  EXPECT_TRUE(report.ok()) << (report.problems.empty() ? "" : report.problems.front());
  EXPECT_TRUE(folder.set_aside().empty());
  const auto store = SqliteStore::open(folder.options());
  std::size_t total = 0;
  for (int w = 0; w < 4; ++w) {
    const std::set<std::int64_t> stored = stored_trials(*store, w);
    for (const std::int64_t n : acknowledged[static_cast<std::size_t>(w)]) {
      EXPECT_TRUE(stored.contains(n)) << "writer " << w << " lost trial " << n;
    }
    total += acknowledged[static_cast<std::size_t>(w)].size();
  }
  // Rounds in which nothing was written would prove nothing.
  EXPECT_GT(total, static_cast<std::size_t>(kRounds));
  RecordProperty("acknowledged_trials", static_cast<int>(total));
  std::printf("%zu trials acknowledged over %d rounds\n", total, kRounds);
}

}  // namespace
}  // namespace kiln::cache
