// The Store over one SQLite file that every process of a user shares. Thread-safe.
//
// Two connections: a reader, which no writer ever blocks (write-ahead log), and a writer, used only with the writer
// lock of all processes held. Each has its own mutex, so a thread that waits to write holds up no thread that reads.
//
// A fork gets connections of its own at its first call; those of its parent are left alone, as SQLite demands. A path
// that leads to another file than before (set aside, or removed, by another process) is opened anew.
//
// Trouble is answered here, once, with one warning: a damaged file is set aside and made anew; on a full disk cubins go
// first, then writing pauses; a file of a newer schema is only read.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "cache/database.h"
#include "cache/file_guard.h"
#include "cache/tables.h"
#include "runtime/store.h"

namespace kiln::cache {

class SqliteStore : public Store {
 public:
  // Null, after one warning, when the file must not or cannot be used at all.
  static std::unique_ptr<SqliteStore> open(const StoreOptions& options);
  // Empties the write-ahead log, if no other process is writing just then.
  ~SqliteStore() override;

  std::string location() const override { return path_.string(); }
  bool writable() const override;
  std::optional<StoredCubin> find_cubin(const std::string& key) override;
  bool put_cubin(const StoredCubin& cubin) override;
  std::optional<Decision> find_decision(const std::string& hardware_class, const Problem& problem) override;
  std::vector<Decision> decisions(const std::string& op, const std::string& hardware_class) override;
  bool put_decision(const Decision& decision) override;
  bool put_trial(const Trial& trial) override;
  std::vector<Trial> trials(const std::string& hardware_class, const Problem& problem) override;
  std::vector<Trial> trials_of_template(const std::string& hardware_class, const std::string& template_name) override;
  bool record_miss(const Miss& miss) override;
  std::vector<Miss> misses() override;
  std::optional<std::string> find_fact(const std::string& name) override;
  bool put_fact(const std::string& name, const std::string& value) override;

 private:
  struct Connections;

  SqliteStore(const StoreOptions& options, const FileVerdict& verdict);
  Connections& connections();
  // False when the file turned out to be of no use at all.
  bool open_first();

  // Runs `body` on the reader; what it throws becomes an empty answer.
  template <class Answer>
  Answer read(const std::function<Answer(Tables&)>& body);
  // Runs `body` in one transaction of the writer. True once that is committed.
  using WriteBody = std::function<void(Tables&)>;
  bool write(const WriteBody& body, std::chrono::milliseconds timeout);
  // With write_mutex and the writer lock held. Trouble with the file is met here; throws NewerSchema, ForeignDatabase
  // and Error{io}.
  bool write_locked(Connections& mine, const WriteBody& body);
  void ensure_reader(Connections& mine);
  void ensure_writer(Connections& mine);
  // After a reader met damage: sets the file aside, unless another process has.
  void repair(const FileIdentity& damaged, const std::string& reason);
  // On a full disk: evicts half of the cubins. With the writer lock held; false when not even that can be written.
  bool make_room(Connections& mine);
  // With write_mutex and the writer lock held.
  void set_aside(Connections& mine, const std::string& reason);
  // For a while, with one warning until a write succeeds again.
  void pause_writing(const std::string& reason);
  // For good: the file is of no use.
  void stop_using(const std::string& reason);
  void note_use(const std::string& key);
  void flush_uses(Tables& tables);

  const StoreOptions options_;
  const std::filesystem::path path_;
  std::atomic<Usability> usability_;
  std::atomic<std::int64_t> paused_until_{0};  // steady-clock nanoseconds
  std::atomic<bool> pause_warned_{false};
  // Of the process that made the last call; those of a parent are left to it.
  std::atomic<Connections*> connections_{nullptr};

  std::mutex uses_mutex_;
  std::unordered_map<std::string, std::int64_t> uses_;  // cubin → last use in µs, not yet in the database
};

}  // namespace kiln::cache
