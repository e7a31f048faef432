// What became of a problem's candidates: in memory for the search, in the store for good, and the winner among them.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tuner/kernel_builder.h"
#include "tuner/search/history.h"
#include "tuner/search/search_space.h"
#include "tuner/tuning.h"

namespace kiln::tuner {

class Ledger {
 public:
  // Everything given by reference must outlive it. `problem` is complete.
  Ledger(const TuningParts& parts, const TuneOptions& options, TuneObserver& observer, const Problem& problem,
         const SearchSpace& space);

  const History& history() const noexcept { return history_; }
  bool has_times() const noexcept { return !timings_.empty(); }
  bool has_finals() const noexcept { return !finals_.empty(); }
  const std::string& first_failure() const noexcept { return first_failure_; }
  std::string name_of(std::size_t point) const;

  // Takes over what the store knows of candidates as they are now.
  void reuse_stored_trials();

  // Of a candidate's kernel, for its trial; true the first time.
  bool note_kernel(std::size_t point, const BuiltKernel& kernel);
  void note_dynamic_shared(std::size_t point, int bytes);
  // A candidate's outcome in the search, or among the finalists, which counts for more.
  void record(std::size_t point, const Outcome& outcome);
  void record_final(std::size_t point, const Outcome& outcome);
  void note_peers(std::map<std::string, Timing> peers) { peers_ = std::move(peers); }
  // From now on times say nothing that others should read. Warns once.
  void others_compute();
  bool is_contended() const noexcept { return contended_; }

  // Candidates that ran out of memory, which may be free by now; none is named twice.
  std::vector<std::size_t> take_out_of_memory();
  // Candidates refused for what the compiler made of them: for when nothing else is left.
  const std::vector<std::size_t>& faulty() const noexcept { return faulty_; }
  // The `count` fastest, and `incumbent` if it ran. With `looked_quickly` those with more than that many batches come
  // first, since a first look may flatter.
  std::vector<std::size_t> finalists(std::size_t count, std::optional<std::size_t> incumbent,
                                     std::optional<int> looked_quickly) const;

  struct Verdict {
    std::size_t winner = 0;
    Decision decision;
    double error = 0;  // of the winner
  };
  // By the finals' times where there are some. REQUIRES: has_times().
  Verdict decide(std::optional<std::size_t> incumbent) const;

 private:
  struct Footprint {
    int registers = 0;
    int spill_bytes = 0;
    int shared_bytes = 0;
  };

  void store_trial(std::size_t point, const Outcome& outcome);
  Decision make_decision(std::size_t winner, const Timing& timing) const;
  std::vector<std::string> ties_of(std::size_t winner, double winner_us) const;

  const TuningParts& parts_;
  const TuneOptions& options_;
  TuneObserver& observer_;
  const Problem& problem_;
  const SearchSpace& space_;
  const std::string hardware_class_;
  History history_;
  std::map<std::size_t, Timing> timings_;
  std::map<std::size_t, Timing> finals_;
  std::map<std::size_t, Footprint> footprints_;
  std::map<std::string, Timing> peers_;
  std::vector<std::size_t> faulty_;
  std::vector<std::size_t> out_of_memory_;
  std::string first_failure_;
  bool contended_ = false;
};

}  // namespace kiln::tuner
