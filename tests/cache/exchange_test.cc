#include "cache/exchange.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "cache/maintenance.h"
#include "cache/row_json.h"
#include "cache/sqlite_store.h"
#include "cache/store_file.h"
#include "tests/cache/scratch_folder.h"
#include "tests/runtime/sample_rows.h"

namespace kiln::cache {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClass = "cc9.0-test";
const Versions kOurs{.driver = 13000, .nvrtc = "13.0", .kiln = "0.1.0"};
const Versions kTheirs{.driver = 12040, .nvrtc = "12.4", .kiln = "0.1.0"};

ImportOptions ours() { return {.versions = kOurs, .lock_timeout = std::chrono::milliseconds(500)}; }

void fill(const fs::path& database, int decisions, int trials) {
  StoreOptions options;
  options.path = database;
  const auto store = SqliteStore::open(options);
  for (int i = 0; i < decisions; ++i) store->put_decision(sample_decision(i));
  for (int i = 0; i < trials; ++i) store->put_trial(sample_trial(1, i));
  store->put_cubin(sample_cubin("k", 1000));
}

std::optional<Decision> decision_in(const fs::path& database, std::int64_t m) {
  StoreOptions options;
  options.path = database;
  return SqliteStore::open(options)->find_decision(kClass, sample_problem(m));
}

std::string message_of(const std::function<void()>& body, ErrorCode code) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

class Exchange : public testing::TestWithParam<const char*> {};

TEST_P(Exchange, WhatIsExportedIsImportedUnchanged) {
  const ScratchFolder folder;
  const fs::path file = folder.path() / (std::string("out") + GetParam());
  fill(folder.database(), 3, 5);
  const ExportCounts counts = export_store(folder.database(), file);
  EXPECT_EQ(counts.decisions, 3);
  EXPECT_EQ(counts.trials, 5);

  const fs::path other = folder.path() / "other.db";
  const ImportResult result = import_file(other, file, ours());
  EXPECT_EQ(result.decisions, (ImportCounts{.added = 3, .replaced = 0, .kept = 0}));
  EXPECT_EQ(result.trials, (ImportCounts{.added = 5, .replaced = 0, .kept = 0}));
  Decision expected = sample_decision(2);
  expected.origin = "import " + file.filename().string();
  EXPECT_EQ(to_json(*decision_in(other, 2)), to_json(expected));
  EXPECT_EQ(stats(other).cubins, 0);

  const ImportResult again = import_file(other, file, ours());
  EXPECT_EQ(again.decisions, (ImportCounts{.added = 0, .replaced = 0, .kept = 3}));
  EXPECT_EQ(again.trials, (ImportCounts{.added = 0, .replaced = 0, .kept = 5}));
}

TEST_P(Exchange, AnExportCanBeOfOneClassOrOfDecisionsAlone) {
  const ScratchFolder folder;
  const fs::path file = folder.path() / (std::string("out") + GetParam());
  fill(folder.database(), 2, 3);
  EXPECT_EQ(export_store(folder.database(), file, {.hardware_class = "cc8.0-other"}).decisions, 0);
  const ExportCounts counts =
      export_store(folder.database(), file, {.hardware_class = kClass, .rows = ExportOptions::Rows::decisions});
  EXPECT_EQ(counts.decisions, 2);
  EXPECT_EQ(counts.trials, 0);
}

INSTANTIATE_TEST_SUITE_P(Formats, Exchange, testing::Values(".json", ".db"));

TEST(ExchangeRule, BetterEvidenceWinsInOrder) {
  Decision stale_measured = sample_decision(1);
  stale_measured.versions = kTheirs;
  Decision fresh_predicted = sample_decision(1);
  fresh_predicted.evidence = Evidence::predicted;
  EXPECT_TRUE(better_evidence(stale_measured, fresh_predicted, kOurs));
  EXPECT_FALSE(better_evidence(fresh_predicted, stale_measured, kOurs));

  const Decision fresh = sample_decision(1);
  Decision stale = sample_decision(1);
  stale.versions = kTheirs;
  stale.samples = 1000;
  stale.unix_time += 1000;
  EXPECT_TRUE(better_evidence(fresh, stale, kOurs));
  EXPECT_FALSE(better_evidence(stale, fresh, kOurs));

  Decision few_but_new = sample_decision(1);
  few_but_new.samples = 5;
  few_but_new.unix_time += 1000;
  EXPECT_TRUE(better_evidence(fresh, few_but_new, kOurs));
  EXPECT_FALSE(better_evidence(few_but_new, fresh, kOurs));

  Decision newer = sample_decision(1);
  newer.unix_time += 1;
  EXPECT_TRUE(better_evidence(newer, fresh, kOurs));
  EXPECT_FALSE(better_evidence(fresh, newer, kOurs));
  EXPECT_FALSE(better_evidence(fresh, fresh, kOurs)) << "equals are kept";
}

TEST(ExchangeRule, ATimingIsBetterThanAFailureOfTheSameVersions) {
  Trial failed = sample_trial(1, 64);
  failed.timing.reset();
  failed.failure = Failure{.kind = FailureKind::timeout, .message = "", .log = ""};
  failed.unix_time += 1000;
  EXPECT_TRUE(better_evidence(sample_trial(1, 64), failed, kOurs));
  EXPECT_FALSE(better_evidence(failed, sample_trial(1, 64), kOurs));
}

TEST(ExchangeImport, CountsWhatWasReplacedAndKept) {
  const ScratchFolder folder;
  fill(folder.database(), 2, 2);
  Decision better = sample_decision(0);
  better.samples = 500;
  better.time_us = 1;
  Decision worse = sample_decision(1);
  worse.samples = 1;
  worse.time_us = 2;
  Trial better_trial = sample_trial(1, 0);
  better_trial.timing->batches = 500;
  const Results results{.decisions = {better, worse, sample_decision(9)}, .trials = {better_trial, sample_trial(1, 1)}};
  const fs::path file = folder.path() / "in.json";
  write_file(file, to_json(results).dump());
  const ImportResult result = import_file(folder.database(), file, ours());
  EXPECT_EQ(result.decisions, (ImportCounts{.added = 1, .replaced = 1, .kept = 1}));
  EXPECT_EQ(result.trials, (ImportCounts{.added = 0, .replaced = 1, .kept = 1}));
  EXPECT_EQ(decision_in(folder.database(), 0)->time_us, 1);
  EXPECT_EQ(decision_in(folder.database(), 1)->time_us, sample_decision(1).time_us);
}

TEST(ExchangeImport, CorruptInputChangesNothingAndNamesTheFile) {
  const ScratchFolder folder;
  fill(folder.database(), 1, 1);
  const std::string json = to_json(Results{.decisions = {sample_decision(5), sample_decision(6)}, .trials = {}}).dump();
  Json bad_row = Json::parse(json);
  bad_row["decisions"][1]["time_us"] = "fast";
  Json bad_problem = Json::parse(json);
  bad_problem["decisions"][1]["problem"] = "gemm M=";
  Json newer = Json::parse(json);
  newer["version"] = kResultsVersion + 1;
  Json two = Json::parse(to_json(Results{.decisions = {}, .trials = {sample_trial(1, 1)}}).dump());
  two["trials"][0].erase("timing");
  fill(folder.path() / "sound.db", 20, 200);
  std::string damaged = read_file(folder.path() / "sound.db");
  damaged.replace(damaged.size() / 2, 5000, std::string(5000, '\xee'));

  for (const std::string& bytes :
       {std::string(), std::string("{"), json.substr(0, json.size() / 2), std::string("[]"), std::string("{\"a\": 1}"),
        bad_row.dump(), bad_problem.dump(), newer.dump(), two.dump(), damaged, damaged.substr(0, 5000)}) {
    const fs::path file = folder.path() / "input";
    write_file(file, bytes);
    const std::string message =
        message_of([&] { import_file(folder.database(), file, ours()); }, ErrorCode::invalid_argument);
    EXPECT_NE(message.find(file.string()), std::string::npos) << message;
  }
  EXPECT_EQ(stats(folder.database()).measured_decisions, 1);
  EXPECT_EQ(stats(folder.database()).timed_trials, 1);
  EXPECT_NE(message_of([&] { import_file(folder.database(), folder.path() / "none", ours()); }, ErrorCode::not_found)
                .find("none"),
            std::string::npos);
}

TEST(ExchangeImport, ABadRowIsNamed) {
  const ScratchFolder folder;
  Json json = to_json(Results{.decisions = {sample_decision(5), sample_decision(6)}, .trials = {}});
  json["decisions"][1].erase("config");
  write_file(folder.path() / "in.json", json.dump());
  const std::string message = message_of([&] { import_file(folder.database(), folder.path() / "in.json", ours()); },
                                         ErrorCode::invalid_argument);
  EXPECT_NE(message.find("decisions[1]"), std::string::npos);
  EXPECT_NE(message.find("'config' is missing"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder.database()));
}

TEST(ExchangeImport, ALockedStoreIsAnErrorThatNamesTheHolder) {
  const ScratchFolder folder;
  fill(folder.database(), 1, 1);
  export_store(folder.database(), folder.path() / "out.json");
  StoreFile file(fs::canonical(folder.database()));
  const WriterLock::Held held = file.lock().acquire(std::chrono::milliseconds(1000));
  const std::string message =
      message_of([&] { import_file(folder.database(), folder.path() / "out.json", ours()); }, ErrorCode::cache);
  EXPECT_NE(message.find("process "), std::string::npos);
}

TEST(ExchangeExport, ReplacesTheFileInOneStepAndLeavesNothingElse) {
  const ScratchFolder folder;
  fill(folder.database(), 1, 1);
  const fs::path out = folder.path() / "exports";
  fs::create_directory(out);
  write_file(out / "out.db", "old");
  export_store(folder.database(), out / "out.db");
  EXPECT_TRUE(verify(out / "out.db").ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(out), fs::directory_iterator{}), 1);
  message_of([&] { export_store(folder.path() / "none.db", out / "x.db"); }, ErrorCode::not_found);
  message_of([&] { export_store(folder.database(), folder.path() / "no folder" / "x.db"); }, ErrorCode::io);
}

}  // namespace
}  // namespace kiln::cache
