#include "cache/maintenance.h"

#include <algorithm>

#include "cache/schema.h"
#include "cache/store_file.h"
#include "cache/tables.h"
#include "kiln/error.h"

namespace kiln::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kBusyTimeout{2000};

std::int64_t size_or_zero(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

void require_store(const fs::path& database) {
  if (!fs::is_regular_file(database)) {
    throw Error(ErrorCode::not_found, "there is no store at " + database.string());
  }
}

std::vector<fs::path> set_aside_beside(const fs::path& database) {
  const std::string prefix = database.filename().string() + ".corrupt-";
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::absolute(database).parent_path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && !name.ends_with("-wal") && !name.ends_with("-shm")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

CacheStats stats(const fs::path& database) {
  require_store(database);
  CacheStats stats;
  stats.path = fs::canonical(database);
  stats.file_bytes = size_or_zero(database);
  stats.wal_bytes = size_or_zero(database.string() + "-wal");
  stats.newest_known_schema = schema_version();
  stats.set_aside = set_aside_beside(database);
  try {
    const std::unique_ptr<Database> reader = open_reader(stats.path, Usability::read_only, kBusyTimeout);
    if (!reader) return stats;
    SQLite::Transaction snapshot(reader->connection());
    stats.schema_version = reader->user_version();
    Query decisions = reader->query(sql::kCountDecisions);
    while (decisions->executeStep()) {
      const std::int64_t count = decisions->getColumn(2).getInt64();
      const bool measured = decisions->getColumn(1).getInt() == static_cast<int>(Evidence::measured);
      (measured ? stats.measured_decisions : stats.predicted_decisions) += count;
      stats.classes[decisions->getColumn(0).getString()].decisions += count;
    }
    Query trials = reader->query(sql::kCountTrials);
    while (trials->executeStep()) {
      const std::int64_t count = trials->getColumn(2).getInt64();
      (trials->getColumn(1).getInt() != 0 ? stats.timed_trials : stats.failed_trials) += count;
      stats.classes[trials->getColumn(0).getString()].trials += count;
    }
    Query failures = reader->query(sql::kCountFailures);
    while (failures->executeStep()) {
      stats.failures[failures->getColumn(0).getString()] = failures->getColumn(1).getInt64();
    }
    Query misses = reader->query(sql::kCountMisses);
    while (misses->executeStep()) {
      const std::int64_t count = misses->getColumn(1).getInt64();
      stats.misses += count;
      stats.classes[misses->getColumn(0).getString()].misses = count;
    }
    const Tables::CubinTotals cubins = Tables(*reader).cubin_totals();
    stats.cubins = cubins.count;
    stats.cubin_bytes = cubins.bytes;
  } catch (const SQLite::Exception& error) {
    throw Error(ErrorCode::cache, "cannot read " + database.string() + ": " + error.what());
  }
  return stats;
}

VerifyReport verify(const fs::path& database) {
  require_store(database);
  VerifyReport report;
  try {
    const std::unique_ptr<Database> reader = open_reader(fs::canonical(database), Usability::read_only, kBusyTimeout);
    if (!reader) return report;
    SQLite::Transaction snapshot(reader->connection());
    report.problems = check_integrity(*reader, CheckDepth::full);
    Tables tables(*reader);
    tables.each_decision([&](const Decision&) { ++report.rows_checked; });
    tables.each_trial([&](const Trial&) { ++report.rows_checked; });
    report.rows_checked += static_cast<std::int64_t>(tables.misses().size());
    tables.each_cubin([&](const CubinRow& row) {
      ++report.cubins_checked;
      if (!row.intact()) report.bad_cubins.push_back(row.cubin.key);
    });
    if (tables.unreadable() > 0) {
      report.problems.push_back(std::to_string(tables.unreadable()) + " rows hold values this Kiln cannot read");
    }
  } catch (const SQLite::Exception& error) {
    report.problems.push_back(error.what());
  } catch (const ForeignDatabase& error) {
    report.problems.push_back(error.what());
  }
  return report;
}

GcReport gc(const fs::path& database, const GcOptions& options) {
  require_store(database);
  const FileVerdict verdict = inspect_file(database, Intent::write);
  if (verdict.usability != Usability::read_write) {
    throw Error(ErrorCode::cache, "cannot clean up " + database.string() + ": " + verdict.reason);
  }
  GcReport report;
  try {
    StoreFile file(verdict.path);
    const WriterLock::Held held = file.lock().acquire(options.lock_timeout);
    if (!held) {
      throw Error(ErrorCode::cache,
                  "cannot clean up " + database.string() + ": it is being written by " + file.lock().holder());
    }
    const std::unique_ptr<Database> writer = file.open_writer(kBusyTimeout);
    writer->checkpoint();
    report.file_bytes_before = size_or_zero(verdict.path);
    {
      SQLite::Transaction transaction(writer->connection(), SQLite::TransactionBehavior::IMMEDIATE);
      Tables tables(*writer);
      const Tables::CubinTotals before = tables.cubin_totals();
      std::vector<std::string> damaged;
      tables.each_cubin([&](const CubinRow& row) {
        if (!row.intact()) damaged.push_back(row.cubin.key);
      });
      for (const std::string& key : damaged) tables.delete_cubin(key);
      tables.evict_cubins(options.max_cubin_bytes);
      const Tables::CubinTotals after = tables.cubin_totals();
      report.cubins_removed = before.count - after.count;
      report.cubin_bytes_removed = before.bytes - after.bytes;
      report.misses_removed = tables.delete_answered_misses();
      transaction.commit();
    }
    writer->shrink();
    report.file_bytes_after = size_or_zero(verdict.path);
  } catch (const SQLite::Exception& error) {
    throw Error(ErrorCode::cache, "cannot clean up " + database.string() + ": " + error.what());
  }
  return report;
}

}  // namespace kiln::cache
