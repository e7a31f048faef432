#include "cache/store_file.h"

#include <algorithm>
#include <ctime>

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "base/log.h"
#include "cache/schema.h"

namespace kiln::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kHeaderBytes = 100;
constexpr const char* kCompanions[] = {"", "-wal", "-shm"};

std::int64_t size_or_zero(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

// One line of at most 200 characters: SQLite's reports can run to pages.
std::string first_line(const std::string& text) {
  constexpr std::string_view kHeading = "*** in database main ***\n";
  const std::size_t start = text.starts_with(kHeading) ? kHeading.size() : 0;
  const std::size_t end = std::min(text.find('\n', start), start + 200);
  return text.substr(start, end - start);
}

// Throws SQLite::Exception with the code of a damaged file when the check finds something.
void require_soundness(Database& database, const fs::path& path) {
  const std::int64_t file_bytes = size_or_zero(path);
  // SQLite reads what is missing of the last page as zeros. While the log holds pages, they may be the missing ones.
  if (file_bytes % database.integer("PRAGMA page_size") != 0 && size_or_zero(path.string() + "-wal") == 0) {
    throw SQLite::Exception("it ends in the middle of a page", SQLITE_CORRUPT);
  }
  std::vector<std::string> problems;
  if (file_bytes <= kFullCheckBytes) {
    problems = check_integrity(database, CheckDepth::quick);
  } else {
    problems.push_back(database.connection().execAndGet("PRAGMA quick_check('decisions')").getString());
    if (problems.front() == "ok") problems.clear();
  }
  if (!problems.empty()) throw SQLite::Exception(first_line(problems.front()), SQLITE_CORRUPT);
}

bool has_tables(Database& database) { return database.integer("SELECT count(*) FROM sqlite_schema") > 0; }

}  // namespace

NewerSchema::NewerSchema(const fs::path& path, int version)
    : Error(ErrorCode::unsupported, path.string() + " has schema " + std::to_string(version) +
                                        ", made by a newer Kiln; " + "this one knows up to " +
                                        std::to_string(schema_version())) {}

ForeignDatabase::ForeignDatabase(const fs::path& path)
    : Error(ErrorCode::unsupported, path.string() + " is an SQLite database of another application") {}

std::unique_ptr<Database> StoreFile::try_open(std::chrono::milliseconds busy_timeout) {
  auto database = std::make_unique<Database>(path_, Access::read_write, busy_timeout);
  const int version = database->user_version();
  const std::int32_t application = database->application_id();
  if (application != kApplicationId && (application != 0 || version != 0 || has_tables(*database))) {
    throw ForeignDatabase(path_);
  }
  if (version > schema_version()) throw NewerSchema(path_, version);
  if (version > 0) require_soundness(*database, path_);
  database->prepare_for_writing();
  migrate(*database, migrations());
  return database;
}

void StoreFile::keep_reserve() noexcept {
  const int fd = open(reserve_path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const bool kept = fallocate(fd, 0, 0, kReserveBytes) == 0;
  close(fd);
  if (!kept) release_reserve();
}

void StoreFile::release_reserve() noexcept { unlink(reserve_path().c_str()); }

std::unique_ptr<Database> StoreFile::open_writer(std::chrono::milliseconds busy_timeout) {
  if (identity().inode == 0) {
    create_private_file(path_);
  } else if (const std::int64_t bytes = size_or_zero(path_); bytes == 0) {
    log("cache")->warn("{} was empty: starting a new database in it", path_.string());
  } else if (bytes < kHeaderBytes) {
    // SQLite would take it for empty and write over it.
    set_aside("it has " + std::to_string(bytes) + " bytes, less than a header");
    create_private_file(path_);
  }
  keep_reserve();
  try {
    return try_open(busy_timeout);
  } catch (const SQLite::Exception& error) {
    if (classify(error) != Trouble::corrupt) throw;
    set_aside(error.what());
  }
  create_private_file(path_);
  return try_open(busy_timeout);
}

void StoreFile::set_aside(const std::string& reason) {
  const fs::path base = path_.string() + ".corrupt-" + std::to_string(std::time(nullptr));
  fs::path target = base;
  for (int n = 2; file_identity(target).inode != 0; ++n) target = base.string() + "-" + std::to_string(n);

  for (const char* companion : kCompanions) {
    const fs::path from = path_.string() + companion;
    std::error_code error;
    fs::rename(from, target.string() + companion, error);
    if (error && error != std::errc::no_such_file_or_directory) {
      throw Error(ErrorCode::io, "cannot set the damaged " + from.string() + " aside: " + error.message(), "rename",
                  error.value());
    }
  }
  log("cache")->warn("{} is damaged ({}): set aside as {}, starting a new database", path_.string(), reason,
                     target.string());
}

std::unique_ptr<Database> open_reader(const fs::path& path, Usability usability,
                                      std::chrono::milliseconds busy_timeout) {
  if (file_identity(path).inode == 0) return nullptr;
  const auto open_as = [&](Access access) -> std::unique_ptr<Database> {
    auto database = std::make_unique<Database>(path, access, busy_timeout);
    const std::int32_t application = database->application_id();
    if (database->user_version() == 0 && application == 0 && !has_tables(*database)) return nullptr;
    if (application != kApplicationId) throw ForeignDatabase(path);
    return database;
  };
  if (usability == Usability::read_write) return open_as(Access::query);
  try {
    return open_as(Access::read_only);
  } catch (const SQLite::Exception& error) {
    const Trouble trouble = classify(error);
    if (trouble != Trouble::io && trouble != Trouble::read_only) throw;
    // Reading a write-ahead log takes a shared-memory file beside it. Where that cannot be made nobody is writing
    // either, unless through another mount; and without the log the file would be read as it was at the last
    // checkpoint.
    if (size_or_zero(path.string() + "-wal") > 0) throw;
    return open_as(Access::immutable);
  }
}

}  // namespace kiln::cache
