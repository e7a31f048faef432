#include "cache/tables.h"

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "base/json.h"
#include "base/log.h"
#include "cache/schema.h"
#include "kiln/error.h"

namespace kiln::cache {
namespace {

std::string capped_log(const std::string& log) {
  if (log.size() <= kMaxLogBytes) return log;
  const std::string cut = "\n[… " + std::to_string(log.size() - kMaxLogBytes) + " bytes left out …]\n";
  const std::size_t half = (kMaxLogBytes - cut.size()) / 2;
  return log.substr(0, half) + cut + log.substr(log.size() - half);
}

std::string json_list(const std::vector<std::string>& texts) {
  return Json(texts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> parse_json_list(const std::string& text) {
  return Json::parse(text).get<std::vector<std::string>>();
}

// Fills the parameters of a statement in order.
class Binder {
 public:
  explicit Binder(SQLite::Statement& statement) noexcept : statement_(statement) {}
  template <class... Values>
  void operator()(const Values&... values) {
    (one(values), ...);
  }

 private:
  void one(const std::string& text) { statement_.bind(++index_, text); }
  void one(int value) { statement_.bind(++index_, value); }
  void one(std::int64_t value) { statement_.bind(++index_, value); }
  void one(double value) { statement_.bind(++index_, value); }
  void one(std::nullptr_t) { statement_.bind(++index_); }

  SQLite::Statement& statement_;
  int index_ = 0;
};

template <class... Values>
void bind_all(SQLite::Statement& statement, const Values&... values) {
  Binder bind(statement);
  bind(values...);
}

// Reads the columns of the current row in order.
class Reader {
 public:
  explicit Reader(SQLite::Statement& statement) noexcept : statement_(statement) {}
  std::string text() { return statement_.getColumn(index_++).getString(); }
  int integer() { return statement_.getColumn(index_++).getInt(); }
  std::int64_t integer64() { return statement_.getColumn(index_++).getInt64(); }
  double real() { return statement_.getColumn(index_++).getDouble(); }
  Evidence evidence() {
    const int value = integer();
    if (value != static_cast<int>(Evidence::predicted) && value != static_cast<int>(Evidence::measured)) {
      throw Error(ErrorCode::cache, "evidence " + std::to_string(value) + " is neither 0 (predicted) nor 1 (measured)");
    }
    return static_cast<Evidence>(value);
  }
  Versions versions() {
    Versions versions;
    versions.driver = integer();
    versions.nvrtc = text();
    versions.kiln = text();
    return versions;
  }
  bool null() const { return statement_.isColumnNull(index_); }
  void skip(int columns = 1) { index_ += columns; }

 private:
  SQLite::Statement& statement_;
  int index_ = 0;
};

CubinRow read_cubin(SQLite::Statement& statement) {
  Reader row(statement);
  CubinRow result;
  result.cubin.key = row.text();
  result.sha256 = row.text();
  row.skip(2);  // bytes, last_used_us
  result.cubin.description = row.text();
  result.cubin.resources = row.text();
  result.cubin.symbols = parse_json_list(row.text());
  result.cubin.cubin = row.text();
  return result;
}

Decision read_decision(SQLite::Statement& statement) {
  Reader row(statement);
  Decision decision;
  decision.hardware_class = row.text();
  row.skip();  // problem_digest
  decision.problem = parse_canonical_problem(row.text());
  row.skip();  // op
  decision.template_name = row.text();
  decision.template_digest = row.text();
  decision.config = parse_config(row.text());
  decision.evidence = row.evidence();
  decision.time_us = row.real();
  decision.spread = row.real();
  decision.samples = row.integer();
  decision.baseline = row.text();
  decision.baseline_us = row.real();
  decision.margin = row.real();
  decision.ties = parse_json_list(row.text());
  decision.trials = row.integer();
  decision.versions = row.versions();
  decision.unix_time = row.integer64();
  decision.origin = row.text();
  return decision;
}

Trial read_trial(SQLite::Statement& statement) {
  Reader row(statement);
  Trial trial;
  trial.hardware_class = row.text();
  row.skip();  // problem_digest
  trial.template_digest = row.text();
  trial.config = parse_config(row.text());
  trial.versions = row.versions();
  trial.problem = row.text();
  trial.template_name = row.text();
  trial.evidence = row.evidence();
  trial.registers = row.integer();
  trial.spill_bytes = row.integer();
  trial.shared_bytes = row.integer();
  trial.unix_time = row.integer64();
  if (!row.null()) {
    Timing& timing = trial.timing.emplace();
    timing.median_us = row.real();
    timing.min_us = row.real();
    timing.max_us = row.real();
    timing.spread = row.real();
    timing.batches = row.integer();
    timing.error = row.real();
    timing.sm_clock_mhz = row.integer();
    return trial;
  }
  row.skip(7);
  const std::string kind = row.text();
  const std::optional<FailureKind> parsed = parse_failure_kind(kind);
  if (!parsed) throw Error(ErrorCode::cache, "'" + kind + "' is no kind of failure");
  Failure& failure = trial.failure.emplace();
  failure.kind = *parsed;
  failure.message = row.text();
  failure.log = row.text();
  return trial;
}

Miss read_miss(SQLite::Statement& statement) {
  Reader row(statement);
  Miss miss;
  miss.hardware_class = row.text();
  row.skip();  // problem_digest
  miss.problem = parse_canonical_problem(row.text());
  miss.answered_by = row.text();
  miss.count = row.integer64();
  miss.unix_time = row.integer64();
  return miss;
}

}  // namespace

bool CubinRow::intact() const { return sha256_hex(cubin.cubin) == sha256; }

template <class Row>
std::optional<Row> Tables::read_row(SQLite::Statement& statement, Row (*read)(SQLite::Statement&)) {
  try {
    return read(statement);
  } catch (const Error& error) {
    log("cache")->debug("passing over a row that cannot be read: {}", error.what());
  } catch (const Json::exception& error) {
    log("cache")->debug("passing over a row that cannot be read: {}", error.what());
  }
  ++unreadable_;
  return std::nullopt;
}

template <class Row>
void Tables::visit_all(SQLite::Statement& statement, Row (*read)(SQLite::Statement&),
                       const std::function<void(const Row&)>& visit) {
  while (statement.executeStep()) {
    if (const std::optional<Row> row = read_row(statement, read)) visit(*row);
  }
}

template <class Row>
std::vector<Row> Tables::read_all(SQLite::Statement& statement, Row (*read)(SQLite::Statement&)) {
  std::vector<Row> rows;
  while (statement.executeStep()) {
    if (std::optional<Row> row = read_row(statement, read)) rows.push_back(std::move(*row));
  }
  return rows;
}

std::optional<CubinRow> Tables::find_cubin(const std::string& key) {
  Query query = database_.query(sql::kFindCubin);
  query->bind(1, key);
  if (!query->executeStep()) return std::nullopt;
  return read_row(*query, &read_cubin);
}

void Tables::put_cubin(const StoredCubin& cubin, std::int64_t now_us) {
  Query query = database_.query(sql::kPutCubin);
  const auto bytes = static_cast<std::int64_t>(cubin.cubin.size());
  bind_all(*query, cubin.key, sha256_hex(cubin.cubin), bytes, now_us, cubin.description, cubin.resources,
           json_list(cubin.symbols));
  query->bindNoCopy(8, static_cast<const void*>(cubin.cubin.data()), static_cast<int>(cubin.cubin.size()));
  query->exec();
}

void Tables::delete_cubin(const std::string& key) {
  Query query = database_.query(sql::kDeleteCubin);
  query->bind(1, key);
  query->exec();
}

void Tables::touch_cubin(const std::string& key, std::int64_t used_us) {
  Query query = database_.query(sql::kTouchCubin);
  bind_all(*query, key, used_us);
  query->exec();
}

Tables::CubinTotals Tables::cubin_totals() {
  Query query = database_.query(sql::kCubinTotals);
  query->executeStep();
  return {.count = query->getColumn(0).getInt64(), .bytes = query->getColumn(1).getInt64()};
}

Tables::CubinTotals Tables::evict_cubins(std::int64_t max_bytes) {
  std::int64_t left = cubin_totals().bytes;
  CubinTotals gone;
  std::vector<std::string> keys;
  {
    Query query = database_.query(sql::kCubinsByAge);
    while (left > max_bytes && query->executeStep()) {
      keys.push_back(query->getColumn(0).getString());
      const std::int64_t bytes = query->getColumn(1).getInt64();
      left -= bytes;
      gone.bytes += bytes;
      ++gone.count;
    }
  }
  for (const std::string& key : keys) delete_cubin(key);
  return gone;
}

void Tables::each_cubin(const std::function<void(const CubinRow&)>& visit) {
  Query query = database_.query(sql::kAllCubins);
  visit_all(*query, &read_cubin, visit);
}

std::optional<Decision> Tables::find_decision(const std::string& hardware_class, const std::string& problem_digest) {
  Query query = database_.query(sql::kFindDecision);
  bind_all(*query, hardware_class, problem_digest);
  if (!query->executeStep()) return std::nullopt;
  return read_row(*query, &read_decision);
}

void Tables::put_decision(const Decision& decision) {
  Query query = database_.query(sql::kPutDecision);
  const std::string problem = decision.problem.canonical();
  bind_all(*query, decision.hardware_class, sha256_hex(problem), problem, decision.problem.op, decision.template_name,
           decision.template_digest, to_text(decision.config), static_cast<int>(decision.evidence), decision.time_us,
           decision.spread, decision.samples, decision.baseline, decision.baseline_us, decision.margin,
           json_list(decision.ties), decision.trials, decision.versions.driver, decision.versions.nvrtc,
           decision.versions.kiln, decision.unix_time, decision.origin);
  query->exec();
}

std::vector<Decision> Tables::decisions(const std::string& op, const std::string& hardware_class) {
  Query query = database_.query(hardware_class.empty() ? sql::kDecisionsOfOp : sql::kDecisionsOfOpAndClass);
  query->bind(1, op);
  if (!hardware_class.empty()) query->bind(2, hardware_class);
  return read_all(*query, &read_decision);
}

void Tables::each_decision(const std::function<void(const Decision&)>& visit) {
  Query query = database_.query(sql::kAllDecisions);
  visit_all(*query, &read_decision, visit);
}

std::optional<Trial> Tables::find_trial(const Trial& like) {
  Query query = database_.query(sql::kFindTrial);
  bind_all(*query, like.hardware_class, sha256_hex(like.problem), like.template_digest, to_text(like.config),
           like.versions.driver, like.versions.nvrtc, like.versions.kiln);
  if (!query->executeStep()) return std::nullopt;
  return read_row(*query, &read_trial);
}

void Tables::put_trial(const Trial& trial) {
  Query query = database_.query(sql::kPutTrial);
  Binder bind(*query);
  bind(trial.hardware_class, sha256_hex(trial.problem), trial.template_digest, to_text(trial.config),
       trial.versions.driver, trial.versions.nvrtc, trial.versions.kiln, trial.problem, trial.template_name,
       static_cast<int>(trial.evidence), trial.registers, trial.spill_bytes, trial.shared_bytes, trial.unix_time);
  if (trial.timing) {
    const Timing& timing = *trial.timing;
    bind(timing.median_us, timing.min_us, timing.max_us, timing.spread, timing.batches, timing.error,
         timing.sm_clock_mhz);
  } else {
    bind(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  }
  if (trial.failure) {
    bind(std::string(to_string(trial.failure->kind)), trial.failure->message, capped_log(trial.failure->log));
  } else {
    bind(nullptr, nullptr, nullptr);
  }
  query->exec();
}

std::vector<Trial> Tables::trials_of_problem(const std::string& hardware_class, const std::string& problem_digest) {
  Query query = database_.query(sql::kTrialsOfProblem);
  bind_all(*query, hardware_class, problem_digest);
  return read_all(*query, &read_trial);
}

std::vector<Trial> Tables::trials_of_template(const std::string& hardware_class, const std::string& template_name) {
  Query query = database_.query(sql::kTrialsOfTemplate);
  bind_all(*query, hardware_class, template_name);
  return read_all(*query, &read_trial);
}

void Tables::each_trial(const std::function<void(const Trial&)>& visit) {
  Query query = database_.query(sql::kAllTrials);
  visit_all(*query, &read_trial, visit);
}

void Tables::add_miss(const Miss& miss) {
  Query query = database_.query(sql::kPutMiss);
  const std::string problem = miss.problem.canonical();
  bind_all(*query, miss.hardware_class, sha256_hex(problem), problem, miss.answered_by,
           std::max<std::int64_t>(1, miss.count), miss.unix_time);
  query->exec();
}

void Tables::delete_miss(const std::string& hardware_class, const std::string& problem_digest) {
  Query query = database_.query(sql::kDeleteMiss);
  bind_all(*query, hardware_class, problem_digest);
  query->exec();
}

std::vector<Miss> Tables::misses() {
  Query query = database_.query(sql::kAllMisses);
  return read_all(*query, &read_miss);
}

std::int64_t Tables::delete_answered_misses() {
  Query query = database_.query(sql::kDeleteAnsweredMisses);
  query->bind(1, static_cast<int>(Evidence::measured));
  return query->exec();
}

std::optional<std::string> Tables::find_fact(const std::string& name) {
  Query query = database_.query(sql::kFindFact);
  bind_all(*query, name);
  if (!query->executeStep()) return std::nullopt;
  return query->getColumn(0).getString();
}

void Tables::put_fact(const std::string& name, const std::string& value) {
  Query query = database_.query(sql::kPutFact);
  bind_all(*query, name, value);
  query->exec();
}

}  // namespace kiln::cache
