// The rows of the database as values. No lock, no policy: who may call what, and which of two rows is better, is
// decided by the callers. Everything throws SQLite::Exception. Not thread-safe: as its Database.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/database.h"
#include "runtime/store.h"

namespace kiln::cache {

// A failure's log beyond this keeps its head and its tail.
inline constexpr std::size_t kMaxLogBytes = std::size_t{256} * 1024;

struct CubinRow {
  StoredCubin cubin;
  std::string sha256;  // as stored
  // Whether the bytes are those that were stored.
  bool intact() const;
};

class Tables {
 public:
  explicit Tables(Database& database) noexcept : database_(database) {}

  std::optional<CubinRow> find_cubin(const std::string& key);
  void put_cubin(const StoredCubin& cubin, std::int64_t now_us);
  void delete_cubin(const std::string& key);
  void touch_cubin(const std::string& key, std::int64_t used_us);
  struct CubinTotals {
    std::int64_t count = 0;
    std::int64_t bytes = 0;
  };
  CubinTotals cubin_totals();
  // Deletes the least recently used until at most `max_bytes` are left; says what went.
  CubinTotals evict_cubins(std::int64_t max_bytes);
  void each_cubin(const std::function<void(const CubinRow&)>& visit);

  // A row that cannot be read as one (a later version's dtype, say) is passed over by every reading function below.
  std::optional<Decision> find_decision(const std::string& hardware_class, const std::string& problem_digest);
  void put_decision(const Decision& decision);
  std::vector<Decision> decisions(const std::string& op, const std::string& hardware_class);
  void each_decision(const std::function<void(const Decision&)>& visit);

  // The row with the same class, problem, template digest, config and versions.
  std::optional<Trial> find_trial(const Trial& like);
  void put_trial(const Trial& trial);
  std::vector<Trial> trials_of_problem(const std::string& hardware_class, const std::string& problem_digest);
  std::vector<Trial> trials_of_template(const std::string& hardware_class, const std::string& template_name);
  void each_trial(const std::function<void(const Trial&)>& visit);

  // Adds to the count of the row that is there.
  void add_miss(const Miss& miss);
  void delete_miss(const std::string& hardware_class, const std::string& problem_digest);
  std::vector<Miss> misses();
  // Those that a measured decision has answered since; says how many.
  std::int64_t delete_answered_misses();

  std::optional<std::string> find_fact(const std::string& name);
  void put_fact(const std::string& name, const std::string& value);

  // How many rows the reading functions of this object have passed over.
  std::int64_t unreadable() const noexcept { return unreadable_; }

 private:
  template <class Row>
  std::optional<Row> read_row(SQLite::Statement& statement, Row (*read)(SQLite::Statement&));
  template <class Row>
  std::vector<Row> read_all(SQLite::Statement& statement, Row (*read)(SQLite::Statement&));
  template <class Row>
  void visit_all(SQLite::Statement& statement, Row (*read)(SQLite::Statement&),
                 const std::function<void(const Row&)>& visit);

  Database& database_;
  std::int64_t unreadable_ = 0;
};

}  // namespace kiln::cache
