// Moving tuned results between stores: export to a file, import from one, merge several. Decisions and trials travel;
// cubins do not: they are code, and any machine can make its own.
//
// When both sides have a row for the same key the better evidence wins: measured over predicted, then rows of the
// importing process's own versions over stale ones, then more samples, then the newer; equals are kept. An import reads
// and checks its whole input before it writes, and writes in one transaction: a corrupt file changes nothing.
// Free functions without shared state; thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/store.h"

namespace kiln::cache {

enum class ExchangeFormat { json, sqlite };

// json for a name that ends in ".json", else sqlite.
ExchangeFormat format_of(const std::filesystem::path& file);

struct ExportOptions {
  std::string hardware_class;  // only this class; empty: all
  enum class Rows { decisions, decisions_and_trials } rows = Rows::decisions_and_trials;
};

struct ExportCounts {
  std::int64_t decisions = 0;
  std::int64_t trials = 0;
};

struct ImportCounts {
  std::int64_t added = 0;
  std::int64_t replaced = 0;
  std::int64_t kept = 0;  // rows of ours that were at least as good
  bool operator==(const ImportCounts&) const = default;
};

struct ImportResult {
  ImportCounts decisions;
  ImportCounts trials;
};

struct ImportOptions {
  Versions versions;  // of this process: what "stale" is measured against
  std::chrono::milliseconds lock_timeout{10'000};
};

// Writes the store at `database` to `file`, replacing it in one step; the format follows format_of(). Throws
// Error{not_found} without a store there, Error{cache} for a damaged one, Error{io} when the file cannot be written.
ExportCounts export_store(const std::filesystem::path& database, const std::filesystem::path& file,
                          const ExportOptions& options = {});

// Adds what `file` holds (JSON or SQLite, told apart by content) to the store at `database`, which is made where there
// is none. Imported decisions get the origin "import <file name>". Throws Error{not_found} when the file is not there,
// Error{invalid_argument} naming file and row when it is not an export of this or an older format, Error{cache} when
// the store cannot be written; then nothing has changed.
// Merging several files is importing them in turn into one database.
ImportResult import_file(const std::filesystem::path& database, const std::filesystem::path& file,
                         const ImportOptions& options);

// The conflict rule above: whether `candidate` takes the place of `current`.
bool better_evidence(const Decision& candidate, const Decision& current, const Versions& versions);
bool better_evidence(const Trial& candidate, const Trial& current, const Versions& versions);

}  // namespace kiln::cache
