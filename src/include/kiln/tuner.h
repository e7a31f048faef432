// Tuning from code: what `kiln tune` does. Candidates are compiled in a pool of processes and measured in a worker
// process that may crash or hang without harm. Trials are stored as they end. One Tuner may run one tune() at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kiln/options.h"
#include "kiln/problem.h"

namespace kiln {

// automatic: a shortlist by the cost model and from what won nearby, then what measurements so far suggest. exhaustive:
// every candidate; of a large space each is first looked at quickly (one check, two short batches), and the best are
// measured again by the whole protocol. evolve: generations bred from the best so far.
enum class SearchKind { automatic, exhaustive, random, evolve };

struct TuneOptions {
  std::string gpu;       // UUID, index, or a profile's name ("h200"); empty: device 0
  bool predict = false;  // compile and rank without measuring; implied by a profile name with no such GPU here
  SearchKind search = SearchKind::automatic;
  std::chrono::milliseconds budget{0};  // for the whole run, hard; 0: none
  int max_candidates = 24;              // measured per problem (exhaustive: no limit)
  // The automatic search of one problem ends in time for the whole to take about so long (0: no limit). What is under
  // way is measured to its end.
  std::chrono::milliseconds problem_limit{10'000};
  // exhaustive: candidates predicted slower than so many times the best prediction are left out (0: none is).
  double exhaustive_within = 0;
  bool resume = true;        // problems with a fresh decision are answered by it
  bool reuse_trials = true;  // trials already stored are not measured again
  bool cold = true;          // rotate buffers over more than the L2 holds; false: one set, warm
  std::uint64_t seed = 1;
  double noise = 0.02;        // a challenger must beat the incumbent by more than this
  double range_slack = 0.03;  // how much slower than the best a range's choice may be, for fewer kernels
  std::chrono::milliseconds candidate_deadline{15'000};
  std::vector<std::string> templates;      // only these; empty: all of the op
  bool deterministic = true;               // no template whose bits differ from run to run, unless `templates` names it
  std::string baseline = "cublaslt_best";  // measured interleaved with the candidates where the library is found
  std::filesystem::path
      helper;  // the `kiln` executable, for compile and measuring workers; empty: found beside this program
};

// One problem's outcome, in a form that leaks no internal type.
struct TuneResult {
  Problem problem;
  bool from_store = false;  // already tuned: nothing was measured
  bool failed = false;      // nothing usable was found; `message` says why
  std::string message;
  std::string template_name;
  std::string config;     // text
  bool measured = false;  // false: predicted
  double time_us = 0;
  double spread = 0;
  double error = 0;  // relative Frobenius error
  std::string baseline;
  double baseline_us = 0;
  std::size_t space_size = 0;  // legal configurations over all templates
  int compiled = 0;
  int tried = 0;
  int failures = 0;
  double seconds = 0;
};

// A problem of which one dim takes every value from `first` to `last`, as up_to(last) prepares. `given` holds what is
// fixed; what it leaves out takes the op's defaults at each value, so packed strides follow the dim.
struct ProblemRange {
  Problem given;
  std::string dim;  // no stride, and baked by no template
  std::int64_t first = 1;
  std::int64_t last = 1;
};

// What serves a part of a range.
struct RangeInterval {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::string template_name;
  std::string config;  // text
  double time_us = 0;  // at `last`
  double best_us = 0;  // of the fastest candidate there, timed in the same rounds; 0: not timed in this run
  std::string baseline;
  double baseline_us = 0;
};

struct RangeResult {
  ProblemRange range;
  bool from_store = false;
  bool failed = false;                   // there is no table; `message` says why
  std::string message;                   // also: what of the range has no interval, and why
  bool measured = false;                 // false: predicted
  std::vector<RangeInterval> intervals;  // ascending, one for each value that was tuned
  int kernels = 0;                       // distinct compiled kernels among them …
  int winners = 0;                       // … and among the winners at each value by itself
  std::vector<TuneResult> samples;       // the tuning of each value by itself
  double seconds = 0;
};

// Called from the thread that runs tune(). Default: nothing.
class TuneObserver {
 public:
  virtual ~TuneObserver() = default;
  virtual void problem_started(std::size_t /*index*/, std::size_t /*count*/, const Problem&) {}
  // `stage`: "enumerate", "compile", "check", "measure", "finalists"; done of total.
  virtual void progress(const std::string& /*stage*/, std::size_t /*done*/, std::size_t /*total*/) {}
  // "sm90_gemm BM=128,…" and its time, or its failure's kind and message.
  virtual void trial_ended(const std::string& /*candidate*/, double /*us*/, const std::string& /*failure*/) {}
  virtual void problem_ended(std::size_t /*index*/, const TuneResult&) {}
  virtual void warning(const std::string&) {}
  // Asked between candidates: true stops the run, keeping all that ended.
  virtual bool stop_requested() { return false; }
};

class Tuner {
 public:
  // Throws Error{no_device} for an unknown `gpu`.
  Tuner(const RuntimeOptions& runtime_options, TuneOptions options);
  ~Tuner();
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  // Tunes each problem (missing fields take the op's defaults). One result per problem, in order; problems not reached
  // before a stop or the budget's end are left out.
  std::vector<TuneResult> tune(const std::vector<Problem>& problems, TuneObserver& observer);

  // Tunes a range: representative values are tuned each by itself, every winner is then timed at every value, and the
  // fewest kernels are chosen that stay within options.range_slack of the best at each. Their decisions replace those
  // of the values, so that prepare() over the range and queries within it need few cubins. Throws
  // Error{invalid_argument} for a range that cannot be.
  RangeResult tune_range(const ProblemRange& range, TuneObserver& observer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
