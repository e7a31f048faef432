#include "cache/sqlite_store.h"

#include <chrono>

#include <unistd.h>

#include "base/digest.h"
#include "base/log.h"
#include "cache/schema.h"
#include "cache/store_file.h"
#include "runtime/memory_store.h"

namespace kiln::cache {
namespace {

using std::chrono::milliseconds;

// For housekeeping that a launch must not wait for.
constexpr milliseconds kBriefly{100};
// In WAL mode a reader waits only while another connection recovers the log of a process that died.
constexpr milliseconds kReaderPatience{100};
// A full disk may have room again: writing is tried anew after this long.
constexpr std::chrono::seconds kPause{60};

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Of the system's clock, since GCC 12's thread sanitizer does not see a mutex taken by the steady one. Should that
// clock be set back, a wait still ends with the holder's own, which is bounded by the steady clock.
std::chrono::system_clock::time_point deadline(milliseconds timeout) {
  return std::chrono::system_clock::now() + timeout;
}

std::int64_t steady_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

}  // namespace

// What one process has open. Locks are taken in the order of declaration: write_mutex, the file's lock, read_mutex.
struct SqliteStore::Connections {
  explicit Connections(pid_t owner) noexcept : pid(owner) {}

  const pid_t pid;
  std::timed_mutex write_mutex;
  std::unique_ptr<StoreFile> file;
  std::unique_ptr<Database> writer;
  FileIdentity writer_file;

  std::mutex read_mutex;
  std::unique_ptr<Database> reader;
  FileIdentity reader_file;

  void close_reader() {
    const std::lock_guard lock(read_mutex);
    reader.reset();
  }
};

std::unique_ptr<SqliteStore> SqliteStore::open(const StoreOptions& options) {
  const FileVerdict verdict = inspect_file(options.path, options.read_only ? Intent::read : Intent::write);
  if (verdict.usability == Usability::memory_only) {
    log("cache")->warn("results are kept in memory only: {}", verdict.reason);
    return nullptr;
  }
  if (verdict.usability == Usability::read_only && !options.read_only) {
    log("cache")->warn("{} is only read: {}", verdict.path.string(), verdict.reason);
  }
  std::unique_ptr<SqliteStore> store(new SqliteStore(options, verdict));
  if (!store->open_first()) return nullptr;
  return store;
}

SqliteStore::SqliteStore(const StoreOptions& options, const FileVerdict& verdict)
    : options_(options), path_(verdict.path), usability_(verdict.usability) {}

SqliteStore::~SqliteStore() {
  Connections* const current = connections_.load();
  // In a fork that never used the store these are the parent's connections, and not ours to close.
  if (current == nullptr || current->pid != getpid()) return;
  const std::unique_ptr<Connections> mine(current);
  if (!mine->writer || !SqliteStore::writable()) return;
  try {
    const WriterLock::Held held = mine->file->lock().acquire(kBriefly);
    if (!held || mine->writer_file != mine->file->identity()) return;
    if (!uses_.empty()) write_locked(*mine, [](Tables&) {});
    if (mine->writer) mine->writer->checkpoint();
  } catch (const std::exception& error) {
    log("cache")->debug("closing {}: {}", path_.string(), error.what());
  }
}

SqliteStore::Connections& SqliteStore::connections() {
  Connections* current = connections_.load();
  while (current == nullptr || current->pid != getpid()) {
    auto fresh = std::make_unique<Connections>(getpid());
    // What a parent has open is neither used nor closed here: either would disturb it.
    if (connections_.compare_exchange_weak(current, fresh.get())) return *fresh.release();
  }
  return *current;
}

bool SqliteStore::open_first() {
  if (usability_ == Usability::read_write) {
    write([](Tables&) {}, options_.busy_timeout);
    return usability_ != Usability::memory_only;
  }
  Connections& mine = connections();
  const std::lock_guard lock(mine.read_mutex);
  try {
    ensure_reader(mine);
  } catch (const SQLite::Exception& error) {
    // Another process may be recovering the log of one that died: that passes.
    if (classify(error) != Trouble::busy) stop_using(path_.string() + " cannot be read: " + error.what());
  } catch (const ForeignDatabase& error) {
    stop_using(error.what());
  }
  return usability_ != Usability::memory_only;
}

bool SqliteStore::writable() const { return usability_ == Usability::read_write && steady_ns() >= paused_until_; }

template <class Answer>
Answer SqliteStore::read(const std::function<Answer(Tables&)>& body) {
  if (usability_ == Usability::memory_only) return Answer{};
  Connections& mine = connections();
  FileIdentity damaged;
  std::string reason;
  {
    const std::lock_guard lock(mine.read_mutex);
    try {
      ensure_reader(mine);
      if (!mine.reader) return Answer{};
      Tables tables(*mine.reader);
      return body(tables);
    } catch (const SQLite::Exception& error) {
      const Trouble trouble = classify(error);
      log("cache")->debug("reading {}: {}", path_.string(), error.what());
      if (trouble == Trouble::busy || trouble == Trouble::row) return Answer{};
      mine.reader.reset();
      if (trouble != Trouble::corrupt) return Answer{};
      damaged = mine.reader_file;
      reason = error.what();
    } catch (const Error& error) {
      log("cache")->debug("reading {}: {}", path_.string(), error.what());
      return Answer{};
    }
  }
  repair(damaged, reason);
  return Answer{};
}

void SqliteStore::ensure_reader(Connections& mine) {
  const FileIdentity now = file_identity(path_);
  if (mine.reader && mine.reader_file == now) return;
  mine.reader.reset();
  mine.reader_file = now;
  mine.reader = open_reader(path_, usability_, kReaderPatience);
}

void SqliteStore::repair(const FileIdentity& damaged, const std::string& reason) {
  if (usability_ != Usability::read_write) {
    stop_using(path_.string() + " is damaged (" + reason + ") and cannot be set aside");
    return;
  }
  Connections& mine = connections();
  const std::unique_lock lock(mine.write_mutex, deadline(kBriefly));
  if (!lock) return;
  try {
    if (!mine.file) mine.file = std::make_unique<StoreFile>(path_);
    const WriterLock::Held held = mine.file->lock().acquire(kBriefly);
    if (!held || mine.file->identity() != damaged) return;
    set_aside(mine, reason);
    ensure_writer(mine);
  } catch (const std::exception& error) {
    pause_writing(error.what());
  }
}

void SqliteStore::set_aside(Connections& mine, const std::string& reason) {
  mine.writer.reset();
  mine.close_reader();
  mine.file->set_aside(reason);
}

void SqliteStore::ensure_writer(Connections& mine) {
  if (mine.writer && mine.writer_file == mine.file->identity()) return;
  mine.writer.reset();
  mine.writer = mine.file->open_writer(options_.busy_timeout);
  mine.writer_file = mine.file->identity();
}

bool SqliteStore::write(const WriteBody& body, milliseconds timeout) {
  if (!writable()) return false;
  Connections& mine = connections();
  const std::unique_lock lock(mine.write_mutex, deadline(timeout));
  if (!lock) return false;
  try {
    if (!mine.file) mine.file = std::make_unique<StoreFile>(path_);
    const WriterLock::Held held = mine.file->lock().acquire(timeout);
    return held && write_locked(mine, body);
  } catch (const NewerSchema& error) {
    usability_ = Usability::read_only;
    log("cache")->warn("{} is only read: {}", path_.string(), error.what());
  } catch (const ForeignDatabase& error) {
    stop_using(error.what());
  } catch (const Error& error) {
    pause_writing(error.what());
  }
  return false;
}

bool SqliteStore::write_locked(Connections& mine, const WriteBody& body) {
  constexpr int kAttempts = 3;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    std::string reason;
    try {
      ensure_writer(mine);
      SQLite::Transaction transaction(mine.writer->connection(), SQLite::TransactionBehavior::IMMEDIATE);
      if (const int version = mine.writer->user_version(); version > schema_version()) {
        throw NewerSchema(path_, version);
      }
      Tables tables(*mine.writer);
      flush_uses(tables);
      body(tables);
      transaction.commit();
      pause_warned_ = false;
      return true;
    } catch (const SQLite::Exception& error) {
      reason = error.what();
      switch (classify(error)) {
        case Trouble::busy:
          log("cache")->debug("writing {}: {}", path_.string(), reason);
          return false;
        case Trouble::row:
          log("cache")->warn("{} refused a row: {}", path_.string(), reason);
          return false;
        case Trouble::corrupt:
          break;
        case Trouble::full:
          if (attempt < kAttempts && make_room(mine)) continue;
          pause_writing(reason);
          return false;
        case Trouble::read_only:
        case Trouble::io:
          // Also what SQLite says when the file was moved away under its connection.
          mine.writer.reset();
          if (attempt < kAttempts) continue;
          pause_writing(reason);
          return false;
      }
    }
    // Only damage gets here.
    if (attempt == kAttempts) break;
    set_aside(mine, reason);
  }
  pause_writing("it is damaged again as soon as it is made");
  return false;
}

bool SqliteStore::make_room(Connections& mine) {
  if (!mine.writer) return false;
  try {
    mine.file->release_reserve();
    mine.writer->checkpoint();
    Tables::CubinTotals gone;
    {
      SQLite::Transaction transaction(mine.writer->connection(), SQLite::TransactionBehavior::IMMEDIATE);
      Tables tables(*mine.writer);
      gone = tables.evict_cubins(tables.cubin_totals().bytes / 2);
      transaction.commit();
    }
    // What is stored next goes where the evicted cubins were; the log is emptied to have room to get it there.
    mine.writer->checkpoint();
    mine.file->keep_reserve();
    log("cache")->info("no room for {}: {} cubins of {} bytes evicted", path_.string(), gone.count, gone.bytes);
    return true;
  } catch (const SQLite::Exception& error) {
    log("cache")->info("making room in {}: {}", path_.string(), error.what());
    return false;
  }
}

void SqliteStore::pause_writing(const std::string& reason) {
  paused_until_ = steady_ns() + std::chrono::nanoseconds(kPause).count();
  if (!pause_warned_.exchange(true)) {
    log("cache")->warn("cannot write {}, new results are kept in memory only: {}", path_.string(), reason);
  }
}

void SqliteStore::stop_using(const std::string& reason) {
  if (usability_.exchange(Usability::memory_only) != Usability::memory_only) {
    log("cache")->warn("results are kept in memory only: {}", reason);
  }
}

void SqliteStore::note_use(const std::string& key) {
  const std::lock_guard lock(uses_mutex_);
  uses_[key] = now_us();
}

void SqliteStore::flush_uses(Tables& tables) {
  std::unordered_map<std::string, std::int64_t> uses;
  {
    const std::lock_guard lock(uses_mutex_);
    uses.swap(uses_);
  }
  for (const auto& [key, used_us] : uses) tables.touch_cubin(key, used_us);
}

std::optional<StoredCubin> SqliteStore::find_cubin(const std::string& key) {
  std::optional<CubinRow> row = read<std::optional<CubinRow>>([&](Tables& tables) { return tables.find_cubin(key); });
  if (!row) return std::nullopt;
  if (!row->intact()) {
    log("cache")->warn("cubin {} in {} is damaged and will be compiled again", key, path_.string());
    write([&](Tables& tables) { tables.delete_cubin(key); }, kBriefly);
    return std::nullopt;
  }
  note_use(key);
  return std::move(row->cubin);
}

bool SqliteStore::put_cubin(const StoredCubin& cubin) {
  if (static_cast<std::int64_t>(cubin.cubin.size()) > options_.max_cubin_bytes) return false;
  return write(
      [&](Tables& tables) {
        tables.put_cubin(cubin, now_us());
        tables.evict_cubins(options_.max_cubin_bytes);
      },
      options_.busy_timeout);
}

std::optional<Decision> SqliteStore::find_decision(const std::string& hardware_class, const Problem& problem) {
  const std::string digest = problem.digest();
  return read<std::optional<Decision>>([&](Tables& tables) { return tables.find_decision(hardware_class, digest); });
}

std::vector<Decision> SqliteStore::decisions(const std::string& op, const std::string& hardware_class) {
  return read<std::vector<Decision>>([&](Tables& tables) { return tables.decisions(op, hardware_class); });
}

bool SqliteStore::put_decision(const Decision& decision) {
  const std::string digest = decision.problem.digest();
  return write(
      [&](Tables& tables) {
        const std::optional<Decision> current = tables.find_decision(decision.hardware_class, digest);
        if (!current || supersedes(decision, *current)) tables.put_decision(decision);
        if (decision.evidence == Evidence::measured) tables.delete_miss(decision.hardware_class, digest);
      },
      options_.busy_timeout);
}

bool SqliteStore::put_trial(const Trial& trial) {
  return write(
      [&](Tables& tables) {
        const std::optional<Trial> current = tables.find_trial(trial);
        if (!current || supersedes(trial, *current)) tables.put_trial(trial);
      },
      options_.busy_timeout);
}

std::vector<Trial> SqliteStore::trials(const std::string& hardware_class, const Problem& problem) {
  const std::string digest = problem.digest();
  return read<std::vector<Trial>>([&](Tables& tables) { return tables.trials_of_problem(hardware_class, digest); });
}

std::vector<Trial> SqliteStore::trials_of_template(const std::string& hardware_class,
                                                   const std::string& template_name) {
  return read<std::vector<Trial>>(
      [&](Tables& tables) { return tables.trials_of_template(hardware_class, template_name); });
}

bool SqliteStore::record_miss(const Miss& miss) {
  return write([&](Tables& tables) { tables.add_miss(miss); }, options_.busy_timeout);
}

std::vector<Miss> SqliteStore::misses() {
  return read<std::vector<Miss>>([](Tables& tables) { return tables.misses(); });
}

std::optional<std::string> SqliteStore::find_fact(const std::string& name) {
  return read<std::optional<std::string>>([&](Tables& tables) { return tables.find_fact(name); });
}

bool SqliteStore::put_fact(const std::string& name, const std::string& value) {
  return write([&](Tables& tables) { tables.put_fact(name, value); }, options_.busy_timeout);
}

}  // namespace kiln::cache
