#include <algorithm>
#include <utility>

#include "tuner/bench.h"
#include "tuner/measure/statistics.h"

namespace kiln {
namespace {

Timing merge(const std::vector<Timing>& timings) {
  std::vector<double> us;
  std::vector<double> clocks;
  Timing merged = timings.front();
  merged.batches = 0;
  for (const Timing& each : timings) {
    us.push_back(each.median_us);
    clocks.push_back(each.sm_clock_mhz);
    merged.min_us = std::min(merged.min_us, each.min_us);
    merged.max_us = std::max(merged.max_us, each.max_us);
    merged.error = std::max(merged.error, each.error);
    merged.batches += each.batches;
  }
  const auto [fastest, slowest] = std::minmax_element(us.begin(), us.end());
  const double range = *slowest - *fastest;
  merged.median_us = tuner::quantile(us, 0.5);
  merged.spread = merged.median_us > 0 ? range / merged.median_us : 0;
  merged.sm_clock_mhz = static_cast<int>(tuner::quantile(clocks, 0.5));
  return merged;
}

void add_new(std::vector<std::string>& all, const std::vector<std::string>& more) {
  for (const std::string& each : more) {
    if (std::find(all.begin(), all.end(), each) == all.end()) all.push_back(each);
  }
}

}  // namespace

BenchRow merge_passes(const std::vector<BenchRow>& passes) {
  const auto failed =
      std::find_if(passes.begin(), passes.end(), [](const BenchRow& row) { return row.failure.has_value(); });
  BenchRow merged = failed != passes.end() ? *failed : passes.back();
  if (passes.size() == 1) return merged;
  std::vector<Timing> kiln;
  std::map<std::string, std::vector<Timing>> peers;
  for (const BenchRow& row : passes) {
    if (row.kiln) kiln.push_back(*row.kiln);
    for (const auto& [peer, timing] : row.peers) peers[peer].push_back(timing);
    merged.peer_failures.insert(row.peer_failures.begin(), row.peer_failures.end());
    add_new(merged.warnings, row.warnings);
    merged.foreign_work = merged.foreign_work || row.foreign_work;
  }
  if (kiln.size() == passes.size()) merged.kiln = merge(kiln);
  merged.peers.clear();
  for (const auto& [peer, timings] : peers) {
    if (timings.size() == passes.size()) merged.peers[peer] = merge(timings);
  }
  return merged;
}

}  // namespace kiln
