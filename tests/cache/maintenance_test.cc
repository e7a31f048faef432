#include "cache/maintenance.h"

#include <gtest/gtest.h>

#include "cache/database.h"
#include "cache/schema.h"
#include "cache/sqlite_store.h"
#include "kiln/error.h"
#include "tests/cache/scratch_folder.h"
#include "tests/runtime/sample_rows.h"

namespace kiln::cache {
namespace {

namespace fs = std::filesystem;

void fill(const ScratchFolder& folder) {
  const auto store = SqliteStore::open(folder.options());
  Decision predicted = sample_decision(2);
  predicted.evidence = Evidence::predicted;
  predicted.hardware_class = "cc8.0-test";
  Trial failed = sample_trial(1, 3);
  failed.timing.reset();
  failed.failure = Failure{.kind = FailureKind::resources, .message = "spills", .log = ""};
  store->put_decision(sample_decision(1));
  store->put_decision(predicted);
  store->put_trial(sample_trial(1, 1));
  store->put_trial(sample_trial(1, 2));
  store->put_trial(failed);
  store->record_miss(sample_miss(5));
  for (const char* key : {"a", "b", "c"}) store->put_cubin(sample_cubin(key, 50'000));
}

void run_sql(const ScratchFolder& folder, const std::string& sql) {
  SQLite::Database(folder.database().string(), SQLite::OPEN_READWRITE, 1000).exec(sql);
}

TEST(Stats, EverythingIsCounted) {
  const ScratchFolder folder;
  fill(folder);
  write_file(folder.database().string() + ".corrupt-17", "x");
  const CacheStats found = stats(folder.database());
  EXPECT_EQ(found.schema_version, schema_version());
  EXPECT_EQ(found.measured_decisions, 1);
  EXPECT_EQ(found.predicted_decisions, 1);
  EXPECT_EQ(found.timed_trials, 2);
  EXPECT_EQ(found.failed_trials, 1);
  EXPECT_EQ(found.failures.at("resources"), 1);
  EXPECT_EQ(found.cubins, 3);
  EXPECT_EQ(found.cubin_bytes, 150'000);
  EXPECT_EQ(found.misses, 1);
  EXPECT_EQ(found.classes.at("cc9.0-test").trials, 3);
  EXPECT_EQ(found.classes.at("cc9.0-test").misses, 1);
  EXPECT_EQ(found.classes.at("cc8.0-test").decisions, 1);
  EXPECT_GT(found.file_bytes, 150'000);
  ASSERT_EQ(found.set_aside.size(), 1u);
  EXPECT_THROW(stats(folder.path() / "none"), Error);
}

TEST(Verify, ASoundStoreIsSound) {
  const ScratchFolder folder;
  fill(folder);
  const VerifyReport report = verify(folder.database());
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.rows_checked, 6);
  EXPECT_EQ(report.cubins_checked, 3);
}

TEST(Verify, ACubinWithOtherBytesIsNamed) {
  const ScratchFolder folder;
  fill(folder);
  run_sql(folder, "UPDATE cubins SET cubin = zeroblob(50000) WHERE key = 'b'");
  const VerifyReport report = verify(folder.database());
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.bad_cubins, std::vector<std::string>{"b"});
}

TEST(Verify, ARowThatCannotBeReadIsReported) {
  const ScratchFolder folder;
  fill(folder);
  run_sql(folder, "UPDATE trials SET config = 'nonsense' WHERE config LIKE '%BM=1'");
  EXPECT_EQ(verify(folder.database()).problems.size(), 1u);
}

TEST(Verify, ADamagedFileIsAReportAndStaysInPlace) {
  const ScratchFolder folder;
  fill(folder);
  std::string bytes = read_file(folder.database());
  bytes.replace(8192, 30'000, std::string(30'000, '\x33'));
  write_file(folder.database(), bytes);
  EXPECT_FALSE(verify(folder.database()).ok());
  write_file(folder.database(), "no database at all, whatever its name says");
  EXPECT_FALSE(verify(folder.database()).ok());
  EXPECT_TRUE(folder.set_aside().empty());
}

TEST(Gc, OldCubinsGoAndTheFileShrinks) {
  const ScratchFolder folder;
  fill(folder);
  EXPECT_TRUE(SqliteStore::open(folder.options())->find_cubin("a"));
  const GcReport report = gc(folder.database(), {.max_cubin_bytes = 60'000});
  EXPECT_EQ(report.cubins_removed, 2);
  EXPECT_EQ(report.cubin_bytes_removed, 100'000);
  EXPECT_LT(report.file_bytes_after, report.file_bytes_before - 90'000);
  const auto store = SqliteStore::open(folder.options());
  EXPECT_TRUE(store->find_cubin("a")) << "used last";
  EXPECT_TRUE(verify(folder.database()).ok());
  const CacheStats after = stats(folder.database());
  EXPECT_EQ(after.measured_decisions + after.predicted_decisions, 2);
  EXPECT_EQ(after.timed_trials + after.failed_trials, 3);
  EXPECT_EQ(after.misses, 1);
}

TEST(Gc, DamagedCubinsAndAnsweredMissesGo) {
  const ScratchFolder folder;
  fill(folder);
  run_sql(folder,
          "UPDATE cubins SET cubin = zeroblob(50000) WHERE key = 'b';"
          "INSERT INTO misses SELECT hardware_class, problem_digest, problem, 'nearest', 1, unix_time FROM decisions");
  const GcReport report = gc(folder.database());
  EXPECT_EQ(report.cubins_removed, 1);
  EXPECT_EQ(report.misses_removed, 1) << "the prediction answers no miss";
  EXPECT_TRUE(verify(folder.database()).ok());
}

TEST(Gc, WorksBesideAStoreInUse) {
  const ScratchFolder folder;
  const auto store = SqliteStore::open(folder.options());
  for (int i = 0; i < 20; ++i) store->put_cubin(sample_cubin("k" + std::to_string(i), 50'000));
  gc(folder.database(), {.max_cubin_bytes = 100'000});
  EXPECT_TRUE(store->find_cubin("k19"));
  EXPECT_FALSE(store->find_cubin("k0"));
  EXPECT_TRUE(store->put_cubin(sample_cubin("more", 1000)));
  EXPECT_TRUE(verify(folder.database()).ok());
}

}  // namespace
}  // namespace kiln::cache
