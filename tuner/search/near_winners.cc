#include "tuner/search/near_winners.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kiln::tuner {
namespace {

// Beyond a factor of four in every dim a winner says little: in replays of the search study each of five farther ones
// took the place of a better candidate, and the loss doubled.
constexpr double kFarthestWinner = 2.0;
// A winner that is illegal here lends its nearest legal relative, if it differs in at most so many parameters.
constexpr int kFarthestRelative = 2;

}  // namespace

void add_near_winners(const SearchSpace& space, const OpSpec& op, const Problem& problem,
                      std::span<const Decision> winners, std::size_t most, std::vector<std::size_t>* points) {
  std::vector<std::pair<double, const Decision*>> near;
  for (const Decision& decision : winners) {
    const std::optional<double> away = problem_distance(op, problem, decision.problem);
    if (away && *away <= kFarthestWinner) near.emplace_back(*away, &decision);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [away, decision] : near) {
    if (most == 0) return;
    const auto point = space.nearest(decision->template_name, decision->config, kFarthestRelative);
    if (!point || std::find(points->begin(), points->end(), *point) != points->end()) continue;
    points->push_back(*point);
    --most;
  }
}

}  // namespace kiln::tuner
