// The database file of a store and what may happen to it: made, checked, migrated, set aside when it is damaged,
// replaced by another process. Owns the writer lock, no connection. Not thread-safe: its owner holds a mutex around it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "cache/database.h"
#include "cache/file_guard.h"
#include "cache/writer_lock.h"
#include "kiln/error.h"

namespace kiln::cache {

// A file that is sound but not for this build to write: made by a newer one, or by another application.
struct NewerSchema : Error {
  NewerSchema(const std::filesystem::path& path, int version);
};
struct ForeignDatabase : Error {
  explicit ForeignDatabase(const std::filesystem::path& path);
};

// Up to this size a file is checked whole when it is opened for writing; beyond it only by its tables of decisions, and
// damage elsewhere shows when it is met.
inline constexpr std::int64_t kFullCheckBytes = std::int64_t{32} << 20;

// As much as the write-ahead log commonly holds before a checkpoint: enough to finish one.
inline constexpr std::int64_t kReserveBytes = std::int64_t{4} << 20;

class StoreFile {
 public:
  // `path` as inspect_file() gives it. Throws Error{io} when the lock file cannot be used.
  explicit StoreFile(const std::filesystem::path& path) : path_(path), lock_(path) {}

  const std::filesystem::path& path() const noexcept { return path_; }
  WriterLock& lock() noexcept { return lock_; }
  FileIdentity identity() const noexcept { return file_identity(path_); }

  // A connection for writing to a file that is there, sound, and of this build's schema: made, migrated or set aside
  // (one warning) as needed. With the lock held. Throws NewerSchema, ForeignDatabase, SQLite::Exception, Error{io}.
  std::unique_ptr<Database> open_writer(std::chrono::milliseconds busy_timeout);

  // Keeps some disk space in <file>.reserve, as far as there is any. With the lock held.
  void keep_reserve() noexcept;
  // Gives it back: on a full disk, even deleting needs room in the write-ahead log. With the lock held.
  void release_reserve() noexcept;

  // Renames the file, its -wal and -shm to <file>.corrupt-<unix time>… and warns. With the lock held, and no connection
  // of this process to it open. Throws Error{io}.
  void set_aside(const std::string& reason);

 private:
  std::unique_ptr<Database> try_open(std::chrono::milliseconds busy_timeout);

  std::filesystem::path reserve_path() const { return path_.string() + ".reserve"; }

  std::filesystem::path path_;
  WriterLock lock_;
};

// A connection for reading; null where there is no database yet. `usability` says whether SQLite may write its own
// bookkeeping beside the file. Throws ForeignDatabase, SQLite::Exception.
std::unique_ptr<Database> open_reader(const std::filesystem::path& path, Usability usability,
                                      std::chrono::milliseconds busy_timeout);

}  // namespace kiln::cache
