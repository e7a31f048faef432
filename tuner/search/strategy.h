// Which candidates to try next. A strategy proposes a batch, is told how each ended, and proposes again: model-ranked
// shortlists, points that look best once the model is corrected by what was measured, random points, neighbours of the
// best, offspring of the best, or simply all.
// Deterministic: the same space, seed and outcomes give the same proposals. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "kiln/tuner.h"
#include "tuner/search/search_space.h"

namespace kiln::tuner {

// What is known of the points tried so far: microseconds, or infinity for a failure.
class History {
 public:
  void record(std::size_t point, double us);
  bool tried(std::size_t point) const { return times_.count(point) != 0; }
  // Every point tried, in the order of the points.
  std::vector<std::size_t> tried() const;
  std::size_t size() const noexcept { return times_.size(); }
  std::size_t failures() const;
  // The fastest that did not fail, best first; equal times in the order of the points. At most `count`.
  std::vector<std::size_t> best(std::size_t count) const;
  double time(std::size_t point) const { return times_.at(point); }

 private:
  std::unordered_map<std::size_t, double> times_;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // Untried points to measure next, at most `room`; empty: the search has ended.
  virtual std::vector<std::size_t> propose(const History& history, std::size_t room) = 0;
  // At most `count` points that will be proposed whatever the outcomes, so that they can be compiled ahead.
  virtual std::vector<std::size_t> upcoming(const History& /*history*/, std::size_t /*count*/) const { return {}; }
};

struct StrategyOptions {
  SearchKind kind = SearchKind::automatic;
  std::size_t max_candidates = 24;  // what the search as a whole may try
  std::uint64_t seed = 1;
  std::vector<std::size_t> seeds;  // points known to be good nearby: proposed first
  double within = 0;               // exhaustive: see TuneOptions::exhaustive_within
  std::size_t batch = 16;          // points proposed at a time by the searches that do not learn from outcomes
};

// `space` must outlive the strategy.
std::unique_ptr<Strategy> make_strategy(const SearchSpace& space, const StrategyOptions& options);

// `count` points worth measuring first: `first`, the defaults, and then in turn the next by predicted time, the one
// most unlike those chosen among all that the model cannot tell from the best, and the next of another template, since
// models of different templates need not agree. By predicted time, two points of one template differ in more than one
// parameter, and at most two are predicted exactly alike, for as long as there are such.
std::vector<std::size_t> shortlist(const SearchSpace& space, std::span<const std::size_t> first, std::size_t count);

}  // namespace kiln::tuner
