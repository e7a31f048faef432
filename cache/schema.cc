#include "cache/schema.h"

#include <array>

namespace kiln::cache {
namespace {

// Trials keep the versions in their key: an upgraded driver adds its own row, and the old one stays as evidence.
// `cubins` holds its blob last, so that sizes and ages are read without walking the blob's pages.
constexpr const char* kFirstSchema = R"sql(
CREATE TABLE decisions (
  hardware_class  TEXT    NOT NULL,
  problem_digest  TEXT    NOT NULL,
  problem         TEXT    NOT NULL,
  op              TEXT    NOT NULL,
  template_name   TEXT    NOT NULL,
  template_digest TEXT    NOT NULL,
  config          TEXT    NOT NULL,
  evidence        INTEGER NOT NULL,
  time_us         REAL    NOT NULL,
  spread          REAL    NOT NULL,
  samples         INTEGER NOT NULL,
  baseline        TEXT    NOT NULL,
  baseline_us     REAL    NOT NULL,
  margin          REAL    NOT NULL,
  ties            TEXT    NOT NULL,
  trials          INTEGER NOT NULL,
  driver          INTEGER NOT NULL,
  nvrtc           TEXT    NOT NULL,
  kiln            TEXT    NOT NULL,
  unix_time       INTEGER NOT NULL,
  origin          TEXT    NOT NULL,
  PRIMARY KEY (hardware_class, problem_digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX decisions_by_op ON decisions (op, hardware_class);

CREATE TABLE trials (
  hardware_class  TEXT    NOT NULL,
  problem_digest  TEXT    NOT NULL,
  template_digest TEXT    NOT NULL,
  config          TEXT    NOT NULL,
  driver          INTEGER NOT NULL,
  nvrtc           TEXT    NOT NULL,
  kiln            TEXT    NOT NULL,
  problem         TEXT    NOT NULL,
  template_name   TEXT    NOT NULL,
  evidence        INTEGER NOT NULL,
  registers       INTEGER NOT NULL,
  spill_bytes     INTEGER NOT NULL,
  shared_bytes    INTEGER NOT NULL,
  unix_time       INTEGER NOT NULL,
  median_us       REAL,
  min_us          REAL,
  max_us          REAL,
  spread          REAL,
  batches         INTEGER,
  error           REAL,
  sm_clock_mhz    INTEGER,
  failure_kind    TEXT,
  failure_message TEXT,
  failure_log     TEXT,
  PRIMARY KEY (hardware_class, problem_digest, template_digest, config, driver, nvrtc, kiln),
  CHECK ((median_us IS NULL) <> (failure_kind IS NULL))
) STRICT;
CREATE INDEX trials_by_template ON trials (hardware_class, template_name);

CREATE TABLE misses (
  hardware_class TEXT    NOT NULL,
  problem_digest TEXT    NOT NULL,
  problem        TEXT    NOT NULL,
  answered_by    TEXT    NOT NULL,
  count          INTEGER NOT NULL,
  unix_time      INTEGER NOT NULL,
  PRIMARY KEY (hardware_class, problem_digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE cubins (
  key          TEXT    NOT NULL PRIMARY KEY,
  sha256       TEXT    NOT NULL,
  bytes        INTEGER NOT NULL,
  last_used_us INTEGER NOT NULL,
  description  TEXT    NOT NULL,
  resources    TEXT    NOT NULL,
  symbols      TEXT    NOT NULL,
  cubin        BLOB    NOT NULL
) STRICT;
CREATE INDEX cubins_by_age ON cubins (last_used_us, bytes, key);

CREATE TABLE facts (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
)sql";

constexpr std::array kMigrations{kFirstSchema};

}  // namespace

std::span<const char* const> migrations() { return kMigrations; }

int schema_version() { return static_cast<int>(kMigrations.size()); }

namespace sql {

const char* const kFindCubin = "SELECT * FROM cubins WHERE key = ?1";
const char* const kPutCubin = "INSERT OR REPLACE INTO cubins VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const char* const kDeleteCubin = "DELETE FROM cubins WHERE key = ?1";
const char* const kTouchCubin = "UPDATE cubins SET last_used_us = max(last_used_us, ?2) WHERE key = ?1";
const char* const kCubinTotals = "SELECT count(*), coalesce(sum(bytes), 0) FROM cubins INDEXED BY cubins_by_age";
const char* const kCubinsByAge = "SELECT key, bytes FROM cubins INDEXED BY cubins_by_age ORDER BY last_used_us";
const char* const kAllCubins = "SELECT * FROM cubins";

const char* const kFindDecision = "SELECT * FROM decisions WHERE hardware_class = ?1 AND problem_digest = ?2";
const char* const kPutDecision =
    "INSERT OR REPLACE INTO decisions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
    "?17, ?18, ?19, ?20, ?21)";
const char* const kDecisionsOfOp = "SELECT * FROM decisions WHERE op = ?1";
const char* const kDecisionsOfOpAndClass = "SELECT * FROM decisions WHERE op = ?1 AND hardware_class = ?2";
const char* const kAllDecisions = "SELECT * FROM decisions";

const char* const kFindTrial =
    "SELECT * FROM trials WHERE hardware_class = ?1 AND problem_digest = ?2 AND template_digest = ?3 AND config = ?4 "
    "AND driver = ?5 AND nvrtc = ?6 AND kiln = ?7";
const char* const kPutTrial =
    "INSERT OR REPLACE INTO trials VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
    "?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)";
const char* const kTrialsOfProblem = "SELECT * FROM trials WHERE hardware_class = ?1 AND problem_digest = ?2";
const char* const kTrialsOfTemplate = "SELECT * FROM trials WHERE hardware_class = ?1 AND template_name = ?2";
const char* const kAllTrials = "SELECT * FROM trials";

const char* const kPutMiss =
    "INSERT INTO misses VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET answered_by = excluded.answered_by, "
    "count = count + excluded.count, unix_time = max(unix_time, excluded.unix_time)";
const char* const kDeleteMiss = "DELETE FROM misses WHERE hardware_class = ?1 AND problem_digest = ?2";
const char* const kAllMisses = "SELECT * FROM misses ORDER BY count DESC, problem";
const char* const kDeleteAnsweredMisses =
    "DELETE FROM misses WHERE EXISTS (SELECT 1 FROM decisions AS d WHERE d.hardware_class = misses.hardware_class AND "
    "d.problem_digest = misses.problem_digest AND d.evidence = ?1 AND d.unix_time >= misses.unix_time)";

const char* const kFindFact = "SELECT value FROM facts WHERE name = ?1";
const char* const kPutFact = "INSERT OR REPLACE INTO facts VALUES (?1, ?2)";

const char* const kCountDecisions = "SELECT hardware_class, evidence, count(*) FROM decisions GROUP BY 1, 2";
const char* const kCountTrials = "SELECT hardware_class, failure_kind IS NULL, count(*) FROM trials GROUP BY 1, 2";
const char* const kCountFailures =
    "SELECT failure_kind, count(*) FROM trials WHERE failure_kind IS NOT NULL GROUP BY 1";
const char* const kCountMisses = "SELECT hardware_class, count(*) FROM misses GROUP BY 1";

}  // namespace sql
}  // namespace kiln::cache
