#include "tuner/measure/offsets.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace kiln::tuner {
namespace {

// Not std::uniform_int_distribution, whose numbers depend on the library. The engine's are the same everywhere.
std::int64_t between(std::int64_t first, std::int64_t last, std::mt19937_64& engine) {
  return first + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(last - first + 1));
}

std::vector<std::size_t> random_order(std::size_t count, std::mt19937_64& engine) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(i) - 1, engine))]);
  }
  return order;
}

// As spread out as can be around the mean of what is left, so that no place of the order is favoured.
std::int64_t draw(std::int64_t left, std::int64_t runs, std::int64_t largest, std::mt19937_64& engine) {
  const std::int64_t mean = left / runs;
  const std::int64_t radius = std::min(mean, largest - mean);
  const std::int64_t low = std::max(mean - radius, left - (runs - 1) * largest);
  return between(low, std::max(low, std::min(mean + radius, left)), engine);
}

}  // namespace

std::vector<std::int64_t> random_offsets(std::int64_t count, const OffsetBounds& bounds, std::uint64_t seed) {
  if (count <= 0) return {};
  std::mt19937_64 engine(seed);
  const std::int64_t largest = std::max<std::int64_t>(0, bounds.largest);
  const std::vector<std::size_t> order = random_order(static_cast<std::size_t>(count - 1), engine);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(count), 0);
  std::int64_t runs = count - 1;
  std::int64_t left = std::clamp<std::int64_t>(bounds.total, 0, runs * largest);
  for (const std::size_t run : order) {
    std::int64_t length = 0;
    if (runs == 1) {
      length = left;
    } else if (run == order.front() && left >= largest) {
      length = largest;
    } else if (run == order[1] && left <= (runs - 1) * largest) {
      length = 0;
    } else {
      length = draw(left, runs, largest, engine);
    }
    offsets[run + 1] = length;
    left -= length;
    --runs;
  }
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return offsets;
}

}  // namespace kiln::tuner
