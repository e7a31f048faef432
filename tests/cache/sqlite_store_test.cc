#include "cache/sqlite_store.h"

#include <algorithm>
#include <thread>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "cache/row_json.h"
#include "cache/store_file.h"
#include "tests/cache/scratch_folder.h"
#include "tests/runtime/sample_rows.h"

namespace kiln::cache {
namespace {

constexpr const char* kClass = "cc9.0-test";

mode_t mode_of(const std::filesystem::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

TEST(SqliteStore, EveryFieldOfEveryRowComesBack) {
  const ScratchFolder folder;
  Trial failed = sample_trial(1, 256);
  failed.timing.reset();
  failed.failure = Failure{.kind = FailureKind::compile, .message = "ptxas: no", .log = std::string("a\0b\n", 4)};
  failed.evidence = Evidence::predicted;
  {
    const auto store = SqliteStore::open(folder.options());
    ASSERT_TRUE(store);
    EXPECT_TRUE(store->put_decision(sample_decision(1)));
    EXPECT_TRUE(store->put_trial(sample_trial(1, 128)));
    EXPECT_TRUE(store->put_trial(failed));
    EXPECT_TRUE(store->put_cubin(sample_cubin("k", 5000)));
    EXPECT_TRUE(store->record_miss(sample_miss(2)));
  }
  const auto store = SqliteStore::open(folder.options());
  EXPECT_EQ(to_json(*store->find_decision(kClass, sample_problem(1))), to_json(sample_decision(1)));
  std::vector<Trial> trials = store->trials(kClass, sample_problem(1));
  ASSERT_EQ(trials.size(), 2u);
  std::sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) { return a.config < b.config; });
  EXPECT_EQ(to_json(trials[0]), to_json(sample_trial(1, 128)));
  EXPECT_EQ(to_json(trials[1]), to_json(failed));
  EXPECT_EQ(store->trials_of_template(kClass, "simt_gemm").size(), 2u);
  const std::optional<StoredCubin> cubin = store->find_cubin("k");
  ASSERT_TRUE(cubin);
  EXPECT_EQ(cubin->cubin, sample_cubin("k", 5000).cubin);
  EXPECT_EQ(cubin->symbols, sample_cubin("k", 5000).symbols);
  EXPECT_EQ(cubin->resources, sample_cubin("k", 5000).resources);
  EXPECT_EQ(cubin->description, sample_cubin("k", 5000).description);
  ASSERT_EQ(store->misses().size(), 1u);
  EXPECT_EQ(to_json(store->misses()[0]), to_json(sample_miss(2)));
}

TEST(SqliteStore, FilesAndFoldersAreForTheirOwnerAlone) {
  const ScratchFolder folder;
  StoreOptions options;
  options.path = folder.path() / "a" / "b" / "kiln.db";
  const mode_t before = umask(0);
  const auto store = SqliteStore::open(options);
  store->put_decision(sample_decision(1));
  umask(before);
  EXPECT_EQ(mode_of(folder.path() / "a"), 0700u);
  EXPECT_EQ(mode_of(folder.path() / "a" / "b"), 0700u);
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
    EXPECT_EQ(mode_of(options.path.string() + suffix), 0600u) << suffix;
  }
}

TEST(SqliteStore, APredictionNeverReplacesAMeasurement) {
  const ScratchFolder folder;
  const auto store = SqliteStore::open(folder.options());
  Decision predicted = sample_decision(1);
  predicted.evidence = Evidence::predicted;
  predicted.unix_time += 100;
  EXPECT_TRUE(store->put_decision(sample_decision(1)));
  EXPECT_TRUE(store->put_decision(predicted));
  EXPECT_EQ(store->find_decision(kClass, sample_problem(1))->evidence, Evidence::measured);
}

TEST(SqliteStore, MissesAddUpAndEndWithAMeasuredDecision) {
  const ScratchFolder folder;
  const auto store = SqliteStore::open(folder.options());
  store->record_miss(sample_miss(1));
  store->record_miss(sample_miss(2));
  store->record_miss(sample_miss(2));
  ASSERT_EQ(store->misses().size(), 2u);
  EXPECT_EQ(store->misses()[0].count, 2);
  EXPECT_EQ(store->misses()[0].problem, sample_problem(2));
  store->put_decision(sample_decision(2));
  EXPECT_EQ(store->misses().size(), 1u);
}

TEST(SqliteStore, ATrialOfOtherVersionsIsARowOfItsOwn) {
  const ScratchFolder folder;
  const auto store = SqliteStore::open(folder.options());
  store->put_trial(sample_trial(1, 64));
  Trial upgraded = sample_trial(1, 64);
  upgraded.versions.driver = 13010;
  store->put_trial(upgraded);
  upgraded.timing->median_us = 3;
  store->put_trial(upgraded);
  EXPECT_EQ(store->trials(kClass, sample_problem(1)).size(), 2u);
}

TEST(SqliteStore, AVeryLongLogKeepsItsHeadAndTail) {
  const ScratchFolder folder;
  const auto store = SqliteStore::open(folder.options());
  Trial failed = sample_trial(1, 64);
  failed.timing.reset();
  failed.failure =
      Failure{.kind = FailureKind::crash, .message = "", .log = "HEAD" + std::string(1 << 20, 'x') + "TAIL"};
  store->put_trial(failed);
  const std::string log = store->trials(kClass, sample_problem(1))[0].failure->log;
  EXPECT_LE(log.size(), kMaxLogBytes);
  EXPECT_TRUE(log.starts_with("HEAD"));
  EXPECT_TRUE(log.ends_with("TAIL"));
}

TEST(SqliteStore, LeastRecentlyUsedCubinsGoFirst) {
  const ScratchFolder folder;
  StoreOptions options = folder.options();
  options.max_cubin_bytes = 3000;
  const auto store = SqliteStore::open(options);
  for (const char* key : {"a", "b", "c"}) EXPECT_TRUE(store->put_cubin(sample_cubin(key, 1000)));
  EXPECT_TRUE(store->find_cubin("a"));
  EXPECT_TRUE(store->put_cubin(sample_cubin("d", 1000)));
  EXPECT_TRUE(store->find_cubin("a"));
  EXPECT_FALSE(store->find_cubin("b"));
  EXPECT_TRUE(store->find_cubin("c"));
  EXPECT_TRUE(store->find_cubin("d"));
  EXPECT_FALSE(store->put_cubin(sample_cubin("huge", 3001)));
  EXPECT_TRUE(store->find_cubin("a"));
}

TEST(SqliteStore, ADamagedCubinIsAMissAndItsRowGoes) {
  const ScratchFolder folder;
  const auto store = SqliteStore::open(folder.options());
  store->put_cubin(sample_cubin("k", 1000));
  {
    SQLite::Database other(folder.database().string(), SQLite::OPEN_READWRITE, 1000);
    other.exec("UPDATE cubins SET cubin = zeroblob(1000)");
  }
  const Warnings warnings;
  EXPECT_FALSE(store->find_cubin("k"));
  EXPECT_EQ(warnings.count(), 1u);
  SQLite::Database other(folder.database().string(), SQLite::OPEN_READWRITE, 1000);
  EXPECT_EQ(other.execAndGet("SELECT count(*) FROM cubins").getInt(), 0);
}

TEST(SqliteStore, ReadersDoNotWaitForAWriter) {
  const ScratchFolder folder;
  StoreOptions options = folder.options();
  options.busy_timeout = std::chrono::milliseconds(200);
  const auto store = SqliteStore::open(options);
  store->put_decision(sample_decision(1));

  StoreFile file(folder.database());
  const WriterLock::Held held = file.lock().acquire(std::chrono::milliseconds(1000));
  SQLite::Database other(folder.database().string(), SQLite::OPEN_READWRITE, 1000);
  SQLite::Transaction writing(other, SQLite::TransactionBehavior::IMMEDIATE);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(store->find_decision(kClass, sample_problem(1)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(100));
  EXPECT_FALSE(store->put_decision(sample_decision(2)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(SqliteStore, AnExclusiveLockOfAStrangerIsASoftMiss) {
  const ScratchFolder folder;
  SqliteStore::open(folder.options())->put_decision(sample_decision(1));
  SQLite::Database other(folder.database().string(), SQLite::OPEN_READWRITE, 1000);
  other.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; DELETE FROM misses");
  StoreOptions options = folder.options();
  options.busy_timeout = std::chrono::milliseconds(50);
  const auto store = SqliteStore::open(options);
  ASSERT_TRUE(store);
  EXPECT_FALSE(store->find_decision(kClass, sample_problem(1)));
  EXPECT_FALSE(store->put_decision(sample_decision(2)));
  other.exec("COMMIT; PRAGMA locking_mode = NORMAL; SELECT count(*) FROM misses");
}

TEST(SqliteStore, AForkGetsConnectionsOfItsOwn) {
  const ScratchFolder folder;
  const auto store = SqliteStore::open(folder.options());
  store->put_decision(sample_decision(1));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool good = store->find_decision(kClass, sample_problem(1)) && store->put_decision(sample_decision(2)) &&
                      store->put_cubin(sample_cubin("child", 10));
    _exit(good ? 0 : 1);
  }
  EXPECT_TRUE(store->put_decision(sample_decision(3)));
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(store->find_decision(kClass, sample_problem(2)));
  EXPECT_TRUE(store->find_cubin("child"));
  EXPECT_TRUE(store->put_decision(sample_decision(4)));
  Database check(std::filesystem::canonical(folder.database()), Access::query, std::chrono::milliseconds(1000));
  EXPECT_TRUE(check_integrity(check, CheckDepth::full).empty());
}

TEST(SqliteStore, ThreadsMayUseItAtOnce) {
  const ScratchFolder folder;
  const auto store = SqliteStore::open(folder.options());
  const auto second = SqliteStore::open(folder.options());
  std::vector<std::thread> threads;
  std::atomic<int> stored{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      SqliteStore& mine = t % 2 == 0 ? *store : *second;
      for (int i = 0; i < 25; ++i) {
        if (mine.put_trial(sample_trial(t, i))) ++stored;
        mine.put_cubin(sample_cubin("k" + std::to_string(i), 2000));
        mine.find_cubin("k" + std::to_string(i / 2));
        mine.trials(kClass, sample_problem(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stored, 100);
  EXPECT_EQ(store->trials_of_template(kClass, "simt_gemm").size(), 100u);
}

TEST(SqliteStore, ARemovedFileIsMadeAnewAtTheNextWrite) {
  const ScratchFolder folder;
  const auto store = SqliteStore::open(folder.options());
  store->put_decision(sample_decision(1));
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(folder.database().string() + suffix);
  EXPECT_FALSE(store->find_decision(kClass, sample_problem(1)));
  EXPECT_TRUE(store->put_decision(sample_decision(2)));
  EXPECT_TRUE(store->find_decision(kClass, sample_problem(2)));
  EXPECT_TRUE(SqliteStore::open(folder.options())->find_decision(kClass, sample_problem(2)));
}

TEST(SqliteStore, ClosingLeavesNoLogBehind) {
  const ScratchFolder folder;
  SqliteStore::open(folder.options())->put_decision(sample_decision(1));
  EXPECT_EQ(std::filesystem::file_size(folder.database().string() + "-wal"), 0u);
}

}  // namespace
}  // namespace kiln::cache
