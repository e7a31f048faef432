// What a search has seen so far. Not thread-safe.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

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

}  // namespace kiln::tuner
