// One connection to the SQLite file, set up the one way Kiln uses it: write-ahead log, statements prepared once, and no
// checkpoint but the writer's own (see writer_lock.h for why). Not thread-safe: its owner holds a mutex around it.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <SQLiteCpp/SQLiteCpp.h>

namespace kiln::cache {

enum class Access {
  read_write,  // the writer: creates tables, checkpoints; only with the writer lock held
  query,       // reads beside writers; needs write access to the files for SQLite's own bookkeeping, writes no rows
  read_only,   // writes nothing at all
  immutable,   // read_only where nobody else writes and not even a lock can be taken: a read-only folder
};

// A borrowed prepared statement. Gives it back reset, so that no read transaction outlives its use.
class Query {
 public:
  explicit Query(SQLite::Statement& statement) noexcept : statement_(statement) {}
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  SQLite::Statement& operator*() noexcept { return statement_; }
  SQLite::Statement* operator->() noexcept { return &statement_; }

 private:
  SQLite::Statement& statement_;
};

// What a failed SQLite call means for the caller.
enum class Trouble {
  busy,       // another connection is at work: try later
  corrupt,    // the file is damaged, or no database
  full,       // no room to write
  read_only,  // the file or its folder cannot be written
  io,         // the file cannot be opened or read
  row,        // this row or statement; the file is fine
};
Trouble classify(const SQLite::Exception& error) noexcept;

class Database {
 public:
  // Throws SQLite::Exception. The file must exist, and be no symbolic link.
  Database(const std::filesystem::path& path, Access access, std::chrono::milliseconds busy_timeout);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Turns the file's write-ahead log on, among other things: only for a file known to be ours, with the writer lock
  // held.
  void prepare_for_writing();

  // Prepared on first use; `sql` is one of the constants of schema.h, known by its address.
  Query query(const char* sql);
  // Runs statements that give no rows.
  void execute(const std::string& sql) { connection_->exec(sql); }
  std::int64_t integer(const std::string& sql) { return connection_->execAndGet(sql).getInt64(); }

  SQLite::Database& connection() noexcept { return *connection_; }
  int user_version() { return static_cast<int>(integer("PRAGMA user_version")); }
  std::int32_t application_id() { return static_cast<std::int32_t>(integer("PRAGMA application_id")); }

  // Moves the write-ahead log into the database and empties it, as far as readers allow. With the writer lock held.
  void checkpoint();
  // Gives free pages back to the file system. With the writer lock held.
  void shrink();

 private:
  std::unique_ptr<SQLite::Database> connection_;
  std::map<const char*, std::unique_ptr<SQLite::Statement>> statements_;
};

// Brings the database to the newest schema, one transaction a step. Throws SQLite::Exception. With the writer lock
// held.
void migrate(Database& database, std::span<const char* const> steps);

// What `PRAGMA integrity_check` says, one entry a problem; empty: sound. `quick` leaves out the indexes.
enum class CheckDepth { quick, full };
std::vector<std::string> check_integrity(Database& database, CheckDepth depth);

}  // namespace kiln::cache
