#include "tuner/model/rank.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace kiln::tuner {
namespace {

std::vector<std::size_t> ascending(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return order;
}

std::vector<double> ranks(std::span<const double> values) {
  const std::vector<std::size_t> order = ascending(values);
  std::vector<double> rank(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double shared = static_cast<double>(begin + end - 1) / 2;
    for (; begin < end; ++begin) rank[order[begin]] = shared;
  }
  return rank;
}

}  // namespace

double spearman(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> x = ranks(a);
  const std::vector<double> y = ranks(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0;
  double xx = 0;
  double yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx == 0 || yy == 0 ? 0 : xy / std::sqrt(xx * yy);
}

RankScores rank_scores(std::span<const double> predicted, std::span<const double> measured) {
  RankScores scores;
  scores.count = measured.size();
  constexpr std::size_t kFewestForCorrelation = 3;
  if (scores.count >= kFewestForCorrelation) scores.spearman = spearman(predicted, measured);

  const std::vector<std::size_t> by_prediction = ascending(predicted);
  const std::vector<std::size_t> by_time = ascending(measured);
  const double best = measured[by_time.front()];
  double sum = 0;
  int favourites = 0;
  for (const std::size_t i : by_prediction) {
    if (predicted[i] != predicted[by_prediction.front()]) break;
    sum += best / measured[i];
    ++favourites;
  }
  scores.first_choice = sum / favourites;

  if (scores.count > kTopCount) {
    const auto top = by_prediction.begin() + static_cast<std::ptrdiff_t>(kTopCount);
    std::size_t found = 0;
    for (std::size_t i = 0; i < kTopCount; ++i) {
      found += std::find(by_prediction.begin(), top, by_time[i]) != top ? 1 : 0;
    }
    scores.recall = static_cast<double>(found) / static_cast<double>(kTopCount);
    scores.best_in_top = std::find(by_prediction.begin(), top, by_time.front()) != top;
  }
  return scores;
}

}  // namespace kiln::tuner
