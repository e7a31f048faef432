// Every state a database file can be found in: each costs one warning at most, and the store works after it.
#include <csignal>
#include <functional>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "cache/database.h"
#include "cache/maintenance.h"
#include "cache/schema.h"
#include "tests/cache/scratch_folder.h"
#include "tests/runtime/sample_rows.h"

namespace kiln::cache {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClass = "cc9.0-test";

// A sound database with one decision, 30 trials and a cubin, its log emptied; returns its bytes.
std::string make_database(const ScratchFolder& folder) {
  {
    const auto store = open_store(folder.options());
    store->put_decision(sample_decision(1));
    for (int i = 0; i < 30; ++i) store->put_trial(sample_trial(1, i));
    store->put_cubin(sample_cubin("k", 20'000));
  }
  for (const char* suffix : {"-wal", "-shm"}) fs::remove(folder.database().string() + suffix);
  return read_file(folder.database());
}

void expect_it_works(Store& store) {
  EXPECT_TRUE(store.writable());
  store.put_decision(sample_decision(7));
  EXPECT_TRUE(store.find_decision(kClass, sample_problem(7)));
}

// Runs `body` in a process of its own, as an ordinary user; true when it returns true.
bool as_ordinary_user(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(2);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(OpenStore, NoPathMeansMemory) {
  const auto store = open_store({});
  EXPECT_EQ(store->location(), "memory");
  expect_it_works(*store);
}

TEST(OpenStore, AFileTruncatedAnywhereIsSetAsideOnce) {
  const ScratchFolder folder;
  const std::string whole = make_database(folder);
  std::vector<std::size_t> lengths{1, 15, 16, 99, 100, 511, 512, 1024, 4095, 4096, 4097, 8192};
  for (std::size_t length = 10'000; length < whole.size(); length += 7'001) lengths.push_back(length);
  lengths.push_back(whole.size() - 4096);
  lengths.push_back(whole.size() - 1);
  for (const std::size_t length : lengths) {
    const ScratchFolder own;
    write_file(own.database(), whole.substr(0, length));
    const Warnings warnings;
    const auto store = open_store(own.options());
    expect_it_works(*store);
    EXPECT_EQ(warnings.count(), 1u) << "at " << length << " bytes";
    EXPECT_EQ(own.set_aside().size(), 1u) << "at " << length << " bytes";
    EXPECT_TRUE(verify(own.database()).ok());
  }
}

TEST(OpenStore, AnEmptyFileIsUsedAfterOneWarning) {
  const ScratchFolder folder;
  write_file(folder.database(), "");
  const Warnings warnings;
  const auto store = open_store(folder.options());
  expect_it_works(*store);
  EXPECT_EQ(warnings.count(), 1u);
  EXPECT_NE(store->location(), "memory");
}

TEST(OpenStore, GarbageIsSetAside) {
  for (const std::string& bytes : {std::string("hello, I am a text file\n"), std::string(100'000, '\xff'),
                                   std::string("SQLite format 3\0", 16) + std::string(9000, '\x5a')}) {
    const ScratchFolder folder;
    write_file(folder.database(), bytes);
    const Warnings warnings;
    expect_it_works(*open_store(folder.options()));
    EXPECT_EQ(warnings.count(), 1u);
    ASSERT_EQ(folder.set_aside().size(), 1u);
    EXPECT_EQ(read_file(folder.path() / folder.set_aside()[0]), bytes);
  }
}

TEST(OpenStore, APageOfGarbageAnywhereCostsOneWarningAtMost) {
  const ScratchFolder folder;
  const std::string whole = make_database(folder);
  for (std::size_t page = 0; page < whole.size() / 4096; ++page) {
    const ScratchFolder own;
    std::string damaged = whole;
    damaged.replace(page * 4096, 4096, std::string(4096, '\xa5'));
    write_file(own.database(), damaged);
    const Warnings warnings;
    const auto store = open_store(own.options());
    store->find_cubin("k");
    store->trials(kClass, sample_problem(1));
    store->find_decision(kClass, sample_problem(1));
    expect_it_works(*store);
    EXPECT_LE(warnings.count(), 1u) << "page " << page;
  }
}

TEST(OpenStore, DamageThatShowsWhileReadingIsRepaired) {
  const ScratchFolder folder;
  make_database(folder);
  const Warnings warnings;
  const auto store = open_store(folder.options());
  ASSERT_TRUE(store->find_decision(kClass, sample_problem(1)));
  {
    const int fd = open(folder.database().c_str(), O_WRONLY);
    const std::string zeros(200'000, '\x11');
    EXPECT_GT(pwrite(fd, zeros.data(), zeros.size(), 0), 0);
    close(fd);
  }
  for (int i = 0; i < 40; ++i) store->trials(kClass, sample_problem(1));
  store->put_decision(sample_decision(2));
  store->find_decision(kClass, sample_problem(2));
  expect_it_works(*store);
  EXPECT_EQ(folder.set_aside().size(), 1u);
  EXPECT_EQ(warnings.count(), 1u);
}

TEST(OpenStore, ANewerSchemaIsReadAndNotWritten) {
  const ScratchFolder folder;
  make_database(folder);
  {
    Database newer(fs::canonical(folder.database()), Access::read_write, std::chrono::milliseconds(1000));
    newer.execute("ALTER TABLE decisions ADD COLUMN later TEXT NOT NULL DEFAULT 'x'");
    newer.execute("PRAGMA user_version = " + std::to_string(schema_version() + 1));
  }
  const Warnings warnings;
  const auto store = open_store(folder.options());
  EXPECT_EQ(warnings.count(), 1u);
  EXPECT_FALSE(store->writable());
  EXPECT_TRUE(store->find_decision(kClass, sample_problem(1)));
  EXPECT_FALSE(store->put_decision(sample_decision(2)));
  EXPECT_TRUE(store->find_decision(kClass, sample_problem(2))) << "kept in memory";
  EXPECT_EQ(store->decisions("gemm", kClass).size(), 2u);
  EXPECT_EQ(warnings.count(), 1u);
  EXPECT_TRUE(folder.set_aside().empty());
  EXPECT_EQ(stats(folder.database()).measured_decisions, 1);
}

TEST(OpenStore, AFileThatBecomesNewerIsNotWrittenAnyMore) {
  const ScratchFolder folder;
  const auto store = open_store(folder.options());
  expect_it_works(*store);
  {
    Database newer(fs::canonical(folder.database()), Access::read_write, std::chrono::milliseconds(1000));
    newer.execute("PRAGMA user_version = " + std::to_string(schema_version() + 1));
  }
  EXPECT_FALSE(store->put_decision(sample_decision(2)));
  EXPECT_FALSE(store->writable());
  EXPECT_TRUE(store->find_decision(kClass, sample_problem(7)));
}

TEST(OpenStore, ADatabaseOfAnotherApplicationIsLeftAlone) {
  const ScratchFolder folder;
  {
    SQLite::Database other(folder.database().string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    other.exec("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)");
  }
  chmod(folder.database().c_str(), 0600);
  const std::string before = read_file(folder.database());
  const Warnings warnings;
  const auto store = open_store(folder.options());
  EXPECT_EQ(store->location(), "memory");
  expect_it_works(*store);
  EXPECT_EQ(warnings.count(), 1u);
  EXPECT_EQ(read_file(folder.database()), before);
}

TEST(OpenStore, AFileOfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
    const ScratchFolder folder;
    make_database(folder);
    const fs::path theirs = folder.database().string() + suffix;
    if (!fs::exists(theirs)) write_file(theirs, "");
    ASSERT_EQ(chown(theirs.c_str(), 12345, 12345), 0);
    const Warnings warnings;
    const auto store = open_store(folder.options());
    EXPECT_EQ(warnings.count(), 1u) << suffix;
    store->put_decision(sample_decision(7));
    EXPECT_TRUE(store->find_decision(kClass, sample_problem(7)));
    EXPECT_EQ(warnings.count(), 1u) << suffix;
    EXPECT_TRUE(folder.set_aside().empty());
  }
}

TEST(OpenStore, AFileThatOthersCanWriteIsNotUsed) {
  for (const mode_t mode : {0660, 0602}) {
    const ScratchFolder folder;
    make_database(folder);
    chmod(folder.database().c_str(), mode);
    const Warnings warnings;
    EXPECT_EQ(open_store(folder.options())->location(), "memory");
    EXPECT_EQ(warnings.count(), 1u);
  }
}

TEST(OpenStore, ASymbolicLinkIsNotFollowed) {
  const ScratchFolder target;
  make_database(target);
  const ScratchFolder folder;
  fs::create_symlink(target.database(), folder.database());
  const Warnings warnings;
  const auto store = open_store(folder.options());
  EXPECT_EQ(store->location(), "memory");
  EXPECT_FALSE(store->find_decision(kClass, sample_problem(1)));
  EXPECT_EQ(warnings.count(), 1u);
}

TEST(OpenStore, ALinkedFolderIsFollowed) {
  const ScratchFolder target;
  make_database(target);
  const ScratchFolder folder;
  fs::create_directory_symlink(target.path(), folder.path() / "link");
  StoreOptions options;
  options.path = folder.path() / "link" / "kiln.db";
  const auto store = open_store(options);
  EXPECT_TRUE(store->find_decision(kClass, sample_problem(1)));
  expect_it_works(*store);
}

TEST(OpenStore, AFolderAtThePathMeansMemory) {
  const ScratchFolder folder;
  fs::create_directory(folder.database());
  const Warnings warnings;
  EXPECT_EQ(open_store(folder.options())->location(), "memory");
  EXPECT_EQ(warnings.count(), 1u);
}

TEST(OpenStore, AReadOnlyFolderIsReadWithAndWithoutSqlitesOwnFilesInIt) {
  EXPECT_TRUE(as_ordinary_user([] {
    for (const bool with_companions : {true, false}) {
      const ScratchFolder folder;
      make_database(folder);
      if (with_companions) open_store(folder.options())->put_decision(sample_decision(3));
      fs::remove(folder.database().string() + ".lock");
      chmod(folder.path().c_str(), 0500);
      const Warnings warnings;
      const auto store = open_store(folder.options());
      const bool found = store->find_decision(kClass, sample_problem(1)) && store->find_cubin("k") &&
                         store->trials(kClass, sample_problem(1)).size() == 30;
      const bool refused = !store->writable() && !store->put_decision(sample_decision(2));
      const bool in_memory = store->find_decision(kClass, sample_problem(2)).has_value();
      chmod(folder.path().c_str(), 0700);
      if (!found || !refused || !in_memory || warnings.count() != 1) return false;
    }
    return true;
  }));
}

TEST(OpenStore, AReadOnlyFileIsRead) {
  EXPECT_TRUE(as_ordinary_user([] {
    const ScratchFolder folder;
    make_database(folder);
    chmod(folder.database().c_str(), 0400);
    const Warnings warnings;
    const auto store = open_store(folder.options());
    return store->find_decision(kClass, sample_problem(1)) && !store->writable() && warnings.count() == 1;
  }));
}

TEST(OpenStore, AFolderThatCannotBeMadeMeansMemory) {
  EXPECT_TRUE(as_ordinary_user([] {
    StoreOptions options;
    options.path = "/proc/kiln-test/kiln.db";
    const Warnings warnings;
    const auto store = open_store(options);
    return store->location() == "memory" && store->put_decision(sample_decision(1)) && warnings.count() == 1;
  }));
}

TEST(OpenStore, ReadOnlyOnRequestWritesNothing) {
  const ScratchFolder folder;
  const std::string before = make_database(folder);
  StoreOptions options = folder.options();
  options.read_only = true;
  const Warnings warnings;
  {
    const auto store = open_store(options);
    EXPECT_TRUE(store->find_decision(kClass, sample_problem(1)));
    EXPECT_FALSE(store->writable());
    EXPECT_FALSE(store->put_trial(sample_trial(9, 9)));
    EXPECT_EQ(store->trials(kClass, sample_problem(9)).size(), 1u);
  }
  EXPECT_EQ(warnings.count(), 0u);
  EXPECT_EQ(read_file(folder.database()), before);
}

TEST(OpenStore, ADamagedFileThatIsOnlyReadIsLeftInPlace) {
  const ScratchFolder folder;
  write_file(folder.database(), "not a database, and nobody may touch it");
  StoreOptions options = folder.options();
  options.read_only = true;
  const Warnings warnings;
  EXPECT_EQ(open_store(options)->location(), "memory");
  EXPECT_EQ(warnings.count(), 1u);
  EXPECT_TRUE(folder.set_aside().empty());
}

TEST(OpenStore, AFullDiskLosesCubinsFirstAndNoResult) {
  const ScratchFolder folder;
  const fs::path small = folder.path() / "small";
  fs::create_directory(small);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=12m,mode=0700") != 0) {
    GTEST_SKIP() << "a small file system can only be mounted by root";
  }
  StoreOptions options;
  options.path = small / "kiln.db";
  {
    const Warnings warnings;
    const auto store = open_store(options);
    store->put_decision(sample_decision(1));
    int stored = 0;
    for (int i = 0; i < 60; ++i) stored += store->put_cubin(sample_cubin("k" + std::to_string(i), 400'000)) ? 1 : 0;
    EXPECT_GT(stored, 40) << "eviction made room";
    EXPECT_EQ(warnings.count(), 0u);
    EXPECT_TRUE(store->put_decision(sample_decision(2)));

    // Now somebody else fills the disk, so that evicting cubins cannot help.
    {
      std::ofstream filler(small / "filler", std::ios::binary);
      const std::string block(65536, 'x');
      while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
      }
    }
    Trial bulky = sample_trial(5, 0);
    bulky.timing.reset();
    bulky.failure = Failure{.kind = FailureKind::compile, .message = "", .log = std::string(200'000, 'x')};
    int kept = 0;
    bool refused = false;
    for (int i = 0; i < 100 && !refused; ++i) {
      bulky.config["BM"] = i;
      refused = !store->put_trial(bulky);
      kept += refused ? 0 : 1;
    }
    EXPECT_TRUE(refused);
    EXPECT_FALSE(store->writable());
    EXPECT_FALSE(store->put_decision(sample_decision(3)));
    for (const int m : {1, 2, 3}) EXPECT_TRUE(store->find_decision(kClass, sample_problem(m))) << m;
    EXPECT_EQ(warnings.count(), 1u);
    EXPECT_EQ(stats(options.path).failed_trials, kept) << "what was stored stays";
  }
  EXPECT_TRUE(verify(options.path).ok());
  umount2(small.c_str(), MNT_DETACH);
}

TEST(OpenStore, ALimitOnFileSizesIsLikeAFullDisk) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const ScratchFolder folder;
    const auto store = open_store(folder.options());
    store->put_decision(sample_decision(1));
    const rlimit limit{.rlim_cur = 300'000, .rlim_max = 300'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    bool refused = false;
    for (int i = 0; i < 20 && !refused; ++i)
      refused = !store->put_cubin(sample_cubin("k" + std::to_string(i), 100'000));
    const bool good = refused && store->find_decision(kClass, sample_problem(1)) && verify(folder.database()).ok();
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace kiln::cache
