#include "cache/database.h"

#include <sqlite3.h>

#include "cache/schema.h"

namespace kiln::cache {
namespace {

std::unique_ptr<SQLite::Database> connect(const std::filesystem::path& path, Access access,
                                          std::chrono::milliseconds busy_timeout) {
  const int timeout = static_cast<int>(busy_timeout.count());
  switch (access) {
    case Access::read_write:
    case Access::query:
      return std::make_unique<SQLite::Database>(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_NOFOLLOW, timeout);
    case Access::read_only:
      return std::make_unique<SQLite::Database>(path.string(), SQLite::OPEN_READONLY | SQLite::OPEN_NOFOLLOW, timeout);
    case Access::immutable:
      break;
  }
  std::string uri = "file:";
  for (const unsigned char c : path.string()) {
    static constexpr char kDigits[] = "0123456789abcdef";
    if (c == '?' || c == '#' || c == '%') {
      uri += {'%', kDigits[c >> 4], kDigits[c & 15]};
    } else {
      uri += static_cast<char>(c);
    }
  }
  return std::make_unique<SQLite::Database>(uri + "?immutable=1",
                                            SQLite::OPEN_READONLY | SQLite::OPEN_NOFOLLOW | SQLite::OPEN_URI, timeout);
}

}  // namespace

Query::~Query() {
  // A reset repeats the error of the last step, which has been thrown already.
  statement_.tryReset();
  statement_.clearBindings();
}

Trouble classify(const SQLite::Exception& error) noexcept {
  // Once extended codes are on, either may hold one; the low byte is the primary code.
  switch (error.getErrorCode() & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
      return Trouble::busy;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Trouble::corrupt;
    case SQLITE_FULL:
      return Trouble::full;
    case SQLITE_READONLY:
      return Trouble::read_only;
    case SQLITE_CANTOPEN:
    case SQLITE_NOMEM:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Trouble::io;
    case SQLITE_IOERR:
      switch (error.getExtendedErrorCode()) {
        // A quota, or a limit on file sizes, fails like a full disk but for its errno.
        case SQLITE_IOERR_WRITE:
        case SQLITE_IOERR_SHMSIZE:
        case SQLITE_IOERR_TRUNCATE:
          return Trouble::full;
        default:
          return Trouble::io;
      }
    default:
      return Trouble::row;
  }
}

Database::Database(const std::filesystem::path& path, Access access, std::chrono::milliseconds busy_timeout)
    : connection_(connect(path, access, busy_timeout)) {
  sqlite3* const handle = connection_->getHandle();
  sqlite3_extended_result_codes(handle, 1);
  // Closing the last connection would checkpoint without the writer lock.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  // The file may come from elsewhere: nothing in its schema is trusted, and its cells are checked as they are read.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  execute("PRAGMA cell_size_check = ON");
  if (access != Access::read_write) {
    execute("PRAGMA query_only = ON");
    sqlite3_wal_autocheckpoint(handle, 0);
  }
}

void Database::prepare_for_writing() {
  // Takes effect only in a file without tables: lets gc give space back without rewriting the file.
  execute("PRAGMA auto_vacuum = INCREMENTAL");
  execute("PRAGMA journal_mode = WAL");
  // In WAL mode a commit is in the kernel's hands once it returns: it outlives the process, though not a power cut.
  execute("PRAGMA synchronous = NORMAL");
  execute("PRAGMA journal_size_limit = 16777216");
  // Nothing here is secret, and zeroing what is deleted would need room on a full disk.
  execute("PRAGMA secure_delete = OFF");
}

Database::~Database() = default;

Query Database::query(const char* sql) {
  std::unique_ptr<SQLite::Statement>& statement = statements_[sql];
  if (!statement) statement = std::make_unique<SQLite::Statement>(*connection_, sql);
  return Query(*statement);
}

void Database::checkpoint() {
  sqlite3_wal_checkpoint_v2(connection_->getHandle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
}

void Database::shrink() {
  // In small transactions, which the page cache holds whole: what it spills would go through the log, and on a full
  // disk that has hardly any room.
  static constexpr std::int64_t kPagesAtOnce = 200;
  for (std::int64_t left = integer("PRAGMA freelist_count"); left > 0; left -= kPagesAtOnce) {
    // Frees one page a step, whatever rows it gives.
    SQLite::Statement vacuum(*connection_, "PRAGMA incremental_vacuum(" + std::to_string(kPagesAtOnce) + ")");
    while (vacuum.executeStep()) {
    }
  }
  checkpoint();
}

void migrate(Database& database, std::span<const char* const> steps) {
  for (int version = database.user_version(); version < static_cast<int>(steps.size()); ++version) {
    SQLite::Transaction transaction(database.connection(), SQLite::TransactionBehavior::IMMEDIATE);
    database.execute("PRAGMA application_id = " + std::to_string(kApplicationId));
    database.execute(steps[static_cast<std::size_t>(version)]);
    database.execute("PRAGMA user_version = " + std::to_string(version + 1));
    transaction.commit();
  }
}

std::vector<std::string> check_integrity(Database& database, CheckDepth depth) {
  SQLite::Statement check(database.connection(),
                          depth == CheckDepth::full ? "PRAGMA integrity_check" : "PRAGMA quick_check");
  std::vector<std::string> problems;
  while (check.executeStep()) {
    const std::string line = check.getColumn(0).getString();
    if (line != "ok") problems.push_back(line);
  }
  return problems;
}

}  // namespace kiln::cache
