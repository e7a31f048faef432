#include "tuner/measure/statistics.h"

#include <algorithm>
#include <cmath>

namespace kiln::tuner {
namespace {

constexpr double kClockDrop = 0.05;

}  // namespace

double quantile(std::span<const double> samples, double fraction) {
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (position - std::floor(position));
}

Timing summarize(std::span<const double> samples_us) {
  Timing timing;
  if (samples_us.empty()) return timing;
  timing.median_us = quantile(samples_us, 0.5);
  timing.min_us = *std::min_element(samples_us.begin(), samples_us.end());
  timing.max_us = *std::max_element(samples_us.begin(), samples_us.end());
  if (timing.median_us > 0) {
    timing.spread = (quantile(samples_us, 0.75) - quantile(samples_us, 0.25)) / timing.median_us;
  }
  timing.batches = static_cast<int>(samples_us.size());
  return timing;
}

std::vector<std::size_t> dirty_rounds(std::span<const int> clocks_mhz) {
  std::vector<std::size_t> dirty;
  for (std::size_t round = 0; round < clocks_mhz.size(); ++round) {
    double sum = 0;
    int neighbours = 0;
    if (round > 0 && clocks_mhz[round - 1] > 0) {
      sum += clocks_mhz[round - 1];
      ++neighbours;
    }
    if (round + 1 < clocks_mhz.size() && clocks_mhz[round + 1] > 0) {
      sum += clocks_mhz[round + 1];
      ++neighbours;
    }
    if (neighbours == 0 || clocks_mhz[round] <= 0) continue;
    if (clocks_mhz[round] < (1 - kClockDrop) * sum / neighbours) dirty.push_back(round);
  }
  return dirty;
}

}  // namespace kiln::tuner
