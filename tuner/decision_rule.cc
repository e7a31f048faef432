#include "tuner/decision_rule.h"

#include <algorithm>

namespace kiln::tuner {
namespace {

// A large GEMM's batches spread by several per cent under a power cap, so the spread alone would give much away to the
// fixed order.
constexpr double kTiePart = 0.25;

}  // namespace

std::size_t choose_winner(std::span<const Timing> finalists, std::optional<std::size_t> incumbent, double noise) {
  std::size_t fastest = 0;
  for (std::size_t i = 1; i < finalists.size(); ++i) {
    if (finalists[i].median_us < finalists[fastest].median_us) fastest = i;
  }
  const Timing& best = finalists[fastest];
  if (incumbent && is_tie(finalists[*incumbent].median_us, best.median_us, noise)) return *incumbent;
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    const double unresolved = std::min(noise * kTiePart, std::max(finalists[i].spread, best.spread));
    if (is_tie(finalists[i].median_us, best.median_us, unresolved)) return i;
  }
  return fastest;
}

bool is_tie(double us, double winner_us, double noise) { return us <= winner_us * (1 + noise); }

}  // namespace kiln::tuner
