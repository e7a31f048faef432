// What the runtime and the tuner ask of the place where tuned results and cubins are kept. Implemented over SQLite in
// cache/, and in memory (memory_store.h) for tests and for processes whose database cannot be used.
//
// Every method is thread-safe. Reads answer "not there" when the store is busy or damaged; they never throw for that.
// Writes say whether the row is safely stored; a launch path ignores the answer, a tuner does not.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "kiln/config.h"
#include "kiln/problem.h"

namespace kiln {

// How far an answer can be trusted, best last.
enum class Evidence { predicted = 0, measured = 1 };
const char* to_string(Evidence evidence) noexcept;

// Which software a row was made with. A row from other versions is served as stale, never thrown away.
struct Versions {
  int driver = 0;     // 13000 for CUDA 13.0; 0: none
  std::string nvrtc;  // "13.0"
  std::string kiln;   // "0.1.0"
  bool operator==(const Versions&) const = default;
};

enum class FailureKind {
  rejected,       // a constraint, or a launch limit of the device
  compile,        // NVRTC refused it
  resources,      // spills, or serialised wgmma
  launch,         // the launch call failed
  wrong_result,   // outside the tolerance, unwritten or out-of-bounds elements, unexpected NaN
  timeout,        // past its deadline; the worker was ended
  crash,          // the worker died, or its context was poisoned
  out_of_memory,  // retried when memory is free; never remembered as invalid
};
const char* to_string(FailureKind kind) noexcept;
std::optional<FailureKind> parse_failure_kind(std::string_view text) noexcept;

struct Timing {
  double median_us = 0;
  double min_us = 0;
  double max_us = 0;
  double spread = 0;  // (p75 − p25) / median over batches
  int batches = 0;
  double error = 0;  // relative Frobenius error, the worst over checks
  int sm_clock_mhz = 0;
};

struct Failure {
  FailureKind kind = FailureKind::rejected;
  std::string message;
  std::string log;  // the whole compiler or worker log, may be empty
};

// One measured (or predicted) candidate.
struct Trial {
  std::string hardware_class;
  std::string problem;  // canonical text
  std::string template_name;
  std::string template_digest;
  Config config;
  Evidence evidence = Evidence::measured;
  std::optional<Timing> timing;  // exactly one of timing and failure is set
  std::optional<Failure> failure;
  int registers = 0;
  int spill_bytes = 0;
  int shared_bytes = 0;  // static + dynamic
  Versions versions;
  std::int64_t unix_time = 0;  // seconds
};

// What was chosen for a problem on a hardware class.
struct Decision {
  std::string hardware_class;
  Problem problem;
  std::string template_name;
  std::string template_digest;
  Config config;
  Evidence evidence = Evidence::predicted;
  double time_us = 0;
  double spread = 0;
  int samples = 0;                // batches behind time_us
  std::string baseline;           // "cublaslt_best", or empty
  double baseline_us = 0;         // 0: none
  double margin = 0;              // baseline_us / time_us − 1; 0 without a baseline
  std::vector<std::string> ties;  // "template config" of those within the noise, the winner not among them
  int trials = 0;                 // how many candidates were tried
  Versions versions;
  std::int64_t unix_time = 0;
  std::string origin;  // "tune", "import FILE", "preset"
};

struct Miss {
  std::string hardware_class;
  Problem problem;
  std::string answered_by;  // the rung that answered instead
  std::int64_t count = 0;
  std::int64_t unix_time = 0;  // last seen
};

struct StoredCubin {
  std::string key;  // KernelKey::digest()
  std::string cubin;
  std::string description;           // template, config, target: for people
  std::string resources;             // KernelResources as JSON
  std::vector<std::string> symbols;  // lowered names, in the order of the template's launches
};

class Store {
 public:
  virtual ~Store() = default;

  // Where it is, for people: a path, or "memory".
  virtual std::string location() const = 0;
  virtual bool writable() const = 0;

  virtual std::optional<StoredCubin> find_cubin(const std::string& key) = 0;
  virtual bool put_cubin(const StoredCubin& cubin) = 0;

  // The decision for exactly this problem and class.
  virtual std::optional<Decision> find_decision(const std::string& hardware_class, const Problem& problem) = 0;
  // Every decision for an op, of one class or (empty) of all: what the nearest match is chosen from.
  virtual std::vector<Decision> decisions(const std::string& op, const std::string& hardware_class) = 0;
  // Replaces an older decision for the same class and problem unless that one has better evidence
  // (measured over predicted; then the newer): then the old one stays, and the answer is still true.
  // A measured decision ends the miss recorded for its problem.
  virtual bool put_decision(const Decision& decision) = 0;

  // One row per class, problem, template digest, config and versions: see supersedes() in memory_store.h.
  virtual bool put_trial(const Trial& trial) = 0;
  virtual std::vector<Trial> trials(const std::string& hardware_class, const Problem& problem) = 0;
  // Every trial of a template on a class, for refitting cost models.
  virtual std::vector<Trial> trials_of_template(const std::string& hardware_class,
                                                const std::string& template_name) = 0;

  // Adds miss.count (at least 1) to what was seen of this class and problem.
  virtual bool record_miss(const Miss& miss) = 0;
  // The most frequent first.
  virtual std::vector<Miss> misses() = 0;

  // Small facts that outlive a process, by name. The one there is: "nvrtc", the version kernels were last compiled
  // with, so that a process whose kernels are all stored can name their keys without loading NVRTC.
  virtual std::optional<std::string> find_fact(const std::string& name) = 0;
  virtual bool put_fact(const std::string& name, const std::string& value) = 0;
};

struct StoreOptions {
  std::filesystem::path path;  // empty: memory only
  bool read_only = false;      // open an existing file for reading, write nothing
  std::chrono::milliseconds busy_timeout{2000};
  std::int64_t max_cubin_bytes = std::int64_t{2} << 30;  // least recently used cubins go first
};

// Opens (and where needed creates) the store. Never throws for a store that cannot be used: one warning, then memory
// only; a damaged file is set aside as <file>.corrupt-<time> with one warning. Defined in cache/.
std::unique_ptr<Store> open_store(const StoreOptions& options);

// A decision that ships with the library. What it is about is known, the rest parsed when asked for: a lookup compares
// the problems of all presets of an op and takes one.
struct Preset {
  std::string hardware_class;
  Problem problem;
  std::function<std::optional<Decision>()> decision;  // answers empty, having logged why, for one that cannot be read
};

// The decisions that ship with the library, for one op and in full, and the profiles of the GPUs they were made on.
// Defined in cache/.
std::vector<Preset> shipped_presets(const std::string& op);
std::vector<Decision> shipped_decisions();
std::vector<cuda::DeviceInfo> shipped_gpu_profiles();

}  // namespace kiln
