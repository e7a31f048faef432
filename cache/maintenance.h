// What an operator asks of a store's file: how full it is, whether it is sound, and to make it smaller. These work on
// the path, beside processes that use the store. Free functions without shared state; thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kiln::cache {

struct ClassStats {
  std::int64_t decisions = 0;
  std::int64_t trials = 0;
  std::int64_t misses = 0;
};

struct CacheStats {
  std::filesystem::path path;
  std::int64_t file_bytes = 0;
  std::int64_t wal_bytes = 0;
  int schema_version = 0;
  int newest_known_schema = 0;  // above it a file is read, not written
  std::int64_t measured_decisions = 0;
  std::int64_t predicted_decisions = 0;
  std::int64_t timed_trials = 0;
  std::int64_t failed_trials = 0;
  std::int64_t cubins = 0;
  std::int64_t cubin_bytes = 0;
  std::int64_t misses = 0;
  std::map<std::string, ClassStats> classes;     // by hardware class
  std::map<std::string, std::int64_t> failures;  // failure kind → trials
  std::vector<std::filesystem::path> set_aside;  // damaged files beside it, oldest first
};

struct VerifyReport {
  std::vector<std::string> problems;  // what SQLite's integrity check and the reading of every row found; empty: sound
  std::vector<std::string> bad_cubins;  // keys whose bytes do not match their SHA-256
  std::int64_t rows_checked = 0;        // decisions, trials and misses
  std::int64_t cubins_checked = 0;
  bool ok() const noexcept { return problems.empty() && bad_cubins.empty(); }
};

struct GcOptions {
  std::int64_t max_cubin_bytes = std::int64_t{2} << 30;
  std::chrono::milliseconds lock_timeout{10'000};
};

struct GcReport {
  std::int64_t cubins_removed = 0;
  std::int64_t cubin_bytes_removed = 0;
  std::int64_t misses_removed = 0;  // those a measured decision has answered since
  std::int64_t file_bytes_before = 0;
  std::int64_t file_bytes_after = 0;
};

// Throws Error{not_found} without a file at `database`, Error{cache} for one that cannot be read.
CacheStats stats(const std::filesystem::path& database);

// Reads everything; changes nothing. A damaged file is a report, not an exception. Throws Error{not_found}.
VerifyReport verify(const std::filesystem::path& database);

// Removes the least recently used cubins beyond the bound, cubins whose bytes are damaged, and answered misses, and
// gives the space back to the file system. Decisions and trials are never removed. Throws Error{not_found},
// Error{cache}.
GcReport gc(const std::filesystem::path& database, const GcOptions& options = {});

}  // namespace kiln::cache
