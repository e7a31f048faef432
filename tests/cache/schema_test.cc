#include "cache/schema.h"

#include <array>

#include <gtest/gtest.h>

#include "cache/database.h"
#include "cache/file_guard.h"
#include "tests/cache/scratch_folder.h"

namespace kiln::cache {
namespace {

std::unique_ptr<Database> empty_database(const ScratchFolder& folder) {
  create_private_file(folder.database());
  auto database = std::make_unique<Database>(std::filesystem::canonical(folder.database()), Access::read_write,
                                             std::chrono::milliseconds(1000));
  database->prepare_for_writing();
  return database;
}

TEST(Schema, ANewDatabaseIsMarkedAsOurs) {
  const ScratchFolder folder;
  const auto database = empty_database(folder);
  migrate(*database, migrations());
  EXPECT_EQ(database->application_id(), kApplicationId);
  EXPECT_EQ(database->user_version(), schema_version());
  EXPECT_TRUE(check_integrity(*database, CheckDepth::full).empty());
}

TEST(Schema, EveryStatementCompilesAgainstTheNewestSchema) {
  const ScratchFolder folder;
  const auto database = empty_database(folder);
  migrate(*database, migrations());
  for (const char* statement : {sql::kFindCubin,
                                sql::kPutCubin,
                                sql::kDeleteCubin,
                                sql::kTouchCubin,
                                sql::kCubinTotals,
                                sql::kCubinsByAge,
                                sql::kAllCubins,
                                sql::kFindDecision,
                                sql::kPutDecision,
                                sql::kDecisionsOfOp,
                                sql::kDecisionsOfOpAndClass,
                                sql::kAllDecisions,
                                sql::kFindTrial,
                                sql::kPutTrial,
                                sql::kTrialsOfProblem,
                                sql::kTrialsOfTemplate,
                                sql::kAllTrials,
                                sql::kPutMiss,
                                sql::kDeleteMiss,
                                sql::kAllMisses,
                                sql::kDeleteAnsweredMisses,
                                sql::kCountDecisions,
                                sql::kCountTrials,
                                sql::kCountFailures,
                                sql::kCountMisses}) {
    EXPECT_NO_THROW(database->query(statement)) << statement;
  }
}

TEST(Schema, AnOlderDatabaseIsBroughtForwardKeepingItsRows) {
  const ScratchFolder folder;
  const auto database = empty_database(folder);
  constexpr std::array kOld{"CREATE TABLE t (a INTEGER)"};
  constexpr std::array kNew{"CREATE TABLE t (a INTEGER)", "ALTER TABLE t ADD COLUMN b INTEGER NOT NULL DEFAULT 7"};
  migrate(*database, kOld);
  database->execute("INSERT INTO t VALUES (1)");
  migrate(*database, kNew);
  EXPECT_EQ(database->user_version(), 2);
  EXPECT_EQ(database->integer("SELECT a * 10 + b FROM t"), 17);
}

TEST(Schema, AMigrationThatFailsLeavesTheVersionBefore) {
  const ScratchFolder folder;
  const auto database = empty_database(folder);
  constexpr std::array kBroken{"CREATE TABLE t (a INTEGER)", "CREATE TABLE u (a INTEGER); CREATE TABLE t (a INTEGER)"};
  EXPECT_THROW(migrate(*database, kBroken), SQLite::Exception);
  EXPECT_EQ(database->user_version(), 1);
  EXPECT_EQ(database->integer("SELECT count(*) FROM sqlite_schema WHERE name = 'u'"), 0);
}

}  // namespace
}  // namespace kiln::cache
