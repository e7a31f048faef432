// Which candidates to try next. A strategy proposes a batch, is told how each ended, and proposes again: model-ranked
// shortlists, points that look best once the model is corrected by what was measured, random points, neighbours of the
// best, offspring of the best, or simply all.
// Deterministic: the same space, seed and outcomes give the same proposals. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kiln/tuner.h"
#include "tuner/search/history.h"
#include "tuner/search/search_space.h"

namespace kiln::tuner {

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

}  // namespace kiln::tuner
