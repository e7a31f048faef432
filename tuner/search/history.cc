#include "tuner/search/history.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kiln::tuner {

void History::record(std::size_t point, double us) { times_[point] = us; }

std::size_t History::failures() const {
  return static_cast<std::size_t>(
      std::count_if(times_.begin(), times_.end(), [](const auto& entry) { return !std::isfinite(entry.second); }));
}

std::vector<std::size_t> History::tried() const {
  std::vector<std::size_t> points;
  for (const auto& [point, us] : times_) points.push_back(point);
  std::sort(points.begin(), points.end());
  return points;
}

std::vector<std::size_t> History::best(std::size_t count) const {
  std::vector<std::pair<double, std::size_t>> order;
  for (const auto& [point, us] : times_) {
    if (std::isfinite(us)) order.emplace_back(us, point);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> points;
  for (const auto& [us, point] : order) {
    if (points.size() == count) break;
    points.push_back(point);
  }
  return points;
}

}  // namespace kiln::tuner
