#include "cache/exchange.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "base/log.h"
#include "cache/row_json.h"
#include "cache/schema.h"
#include "cache/store_file.h"
#include "cache/tables.h"
#include "kiln/error.h"

namespace kiln::cache {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kBusyTimeout{2000};

// The first bytes of every SQLite file.
constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};

// How much is behind a timing; nothing is behind a failure but itself.
int samples_of(const Decision& decision) { return decision.samples; }
int samples_of(const Trial& trial) { return trial.timing ? trial.timing->batches : 0; }

template <class Row>
bool better(const Row& candidate, const Row& current, const Versions& versions) {
  if (candidate.evidence != current.evidence) return candidate.evidence > current.evidence;
  const bool candidate_fresh = candidate.versions == versions;
  const bool current_fresh = current.versions == versions;
  if (candidate_fresh != current_fresh) return candidate_fresh;
  if (samples_of(candidate) != samples_of(current)) return samples_of(candidate) > samples_of(current);
  return candidate.unix_time > current.unix_time;
}

Results read_tables(Database& database, const ExportOptions& options) {
  Tables tables(database);
  Results results;
  const auto wanted = [&](const std::string& hardware_class) {
    return options.hardware_class.empty() || hardware_class == options.hardware_class;
  };
  tables.each_decision([&](const Decision& decision) {
    if (wanted(decision.hardware_class)) results.decisions.push_back(decision);
  });
  if (options.rows == ExportOptions::Rows::decisions_and_trials) {
    tables.each_trial([&](const Trial& trial) {
      if (wanted(trial.hardware_class)) results.trials.push_back(trial);
    });
  }
  return results;
}

// Reads the database at `path` in one snapshot, wherever it lies and whoever owns it: rows are data, not code.
Results read_database(const fs::path& path, const ExportOptions& options) {
  const fs::path real = fs::canonical(path);
  const std::unique_ptr<Database> database = open_reader(real, Usability::read_only, kBusyTimeout);
  if (!database) return {};
  if (const int version = database->user_version(); version > schema_version()) throw NewerSchema(path, version);
  SQLite::Transaction snapshot(database->connection());
  if (const auto problems = check_integrity(*database, CheckDepth::full); !problems.empty()) {
    throw Error(ErrorCode::cache, path.string() + " is damaged: " + problems.front());
  }
  return read_tables(*database, options);
}

std::string read_whole(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  if (!stream) throw Error(ErrorCode::io, "cannot read " + file.string() + ": " + std::strerror(errno));
  return bytes.str();
}

bool is_sqlite(const fs::path& file) {
  std::string head(kSqliteMagic.size(), '\0');
  std::ifstream(file, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  return head == kSqliteMagic;
}

void require_file(const fs::path& file, const char* what) {
  if (!fs::is_regular_file(file)) {
    throw Error(ErrorCode::not_found, "there is no " + std::string(what) + " at " + file.string());
  }
}

Results read_input(const fs::path& file) {
  if (!is_sqlite(file)) return parse_results(read_whole(file), file.string());
  try {
    return read_database(file, {});
  } catch (const std::exception& error) {
    throw Error(ErrorCode::invalid_argument, "cannot import " + file.string() + ": " + error.what());
  }
}

void write_json(const Results& results, const fs::path& file) {
  std::ofstream stream(file, std::ios::binary);
  stream << to_json(results).dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
  stream.close();
  if (!stream) throw Error(ErrorCode::io, "cannot write " + file.string() + ": " + std::strerror(errno));
}

// A file of its own, in one piece: no write-ahead log travels beside it.
void write_database(const Results& results, const fs::path& file) {
  create_private_file(file);
  Database database(fs::canonical(file), Access::read_write, kBusyTimeout);
  migrate(database, migrations());
  SQLite::Transaction transaction(database.connection(), SQLite::TransactionBehavior::IMMEDIATE);
  Tables tables(database);
  for (const Decision& decision : results.decisions) tables.put_decision(decision);
  for (const Trial& trial : results.trials) tables.put_trial(trial);
  transaction.commit();
}

// Puts `row` beside or in place of `current`, or leaves that.
template <class Row>
void settle(const Row& row, const std::optional<Row>& current, const Versions& versions, ImportCounts& counts,
            const std::function<void(const Row&)>& put) {
  if (!current) {
    ++counts.added;
  } else if (better(row, *current, versions)) {
    ++counts.replaced;
  } else {
    ++counts.kept;
    return;
  }
  put(row);
}

}  // namespace

bool better_evidence(const Decision& candidate, const Decision& current, const Versions& versions) {
  return better(candidate, current, versions);
}

bool better_evidence(const Trial& candidate, const Trial& current, const Versions& versions) {
  return better(candidate, current, versions);
}

ExchangeFormat format_of(const fs::path& file) {
  return file.extension() == ".json" ? ExchangeFormat::json : ExchangeFormat::sqlite;
}

ExportCounts export_store(const fs::path& database, const fs::path& file, const ExportOptions& options) {
  require_file(database, "store");
  Results results;
  try {
    results = read_database(database, options);
  } catch (const SQLite::Exception& error) {
    throw Error(ErrorCode::cache, "cannot export " + database.string() + ": " + error.what());
  }

  const fs::path part = file.string() + ".part-" + std::to_string(getpid());
  std::error_code ignored;
  fs::remove(part, ignored);
  try {
    if (format_of(file) == ExchangeFormat::json) {
      write_json(results, part);
    } else {
      write_database(results, part);
    }
    fs::rename(part, file);
  } catch (const std::exception& error) {
    fs::remove(part, ignored);
    throw Error(ErrorCode::io, "cannot export to " + file.string() + ": " + error.what());
  }
  return {.decisions = static_cast<std::int64_t>(results.decisions.size()),
          .trials = static_cast<std::int64_t>(results.trials.size())};
}

ImportResult import_file(const fs::path& database, const fs::path& file, const ImportOptions& options) {
  require_file(file, "file to import");
  Results input = read_input(file);
  for (Decision& decision : input.decisions) decision.origin = "import " + file.filename().string();

  const FileVerdict verdict = inspect_file(database, Intent::write);
  if (verdict.usability != Usability::read_write) {
    throw Error(ErrorCode::cache, "cannot import into " + database.string() + ": " + verdict.reason);
  }
  try {
    StoreFile target(verdict.path);
    const WriterLock::Held held = target.lock().acquire(options.lock_timeout);
    if (!held) {
      throw Error(ErrorCode::cache,
                  "cannot import into " + database.string() + ": it is being written by " + target.lock().holder());
    }
    const std::unique_ptr<Database> writer = target.open_writer(kBusyTimeout);
    SQLite::Transaction transaction(writer->connection(), SQLite::TransactionBehavior::IMMEDIATE);
    Tables tables(*writer);
    ImportResult result;
    for (const Decision& decision : input.decisions) {
      const std::string digest = decision.problem.digest();
      settle<Decision>(decision, tables.find_decision(decision.hardware_class, digest), options.versions,
                       result.decisions, [&](const Decision& row) { tables.put_decision(row); });
    }
    for (const Trial& trial : input.trials) {
      settle<Trial>(trial, tables.find_trial(trial), options.versions, result.trials,
                    [&](const Trial& row) { tables.put_trial(row); });
    }
    tables.delete_answered_misses();
    transaction.commit();
    writer->checkpoint();
    return result;
  } catch (const SQLite::Exception& error) {
    throw Error(ErrorCode::cache, "cannot import into " + database.string() + ": " + error.what());
  }
}

}  // namespace kiln::cache
