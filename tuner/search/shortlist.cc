#include "tuner/search/shortlist.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kiln::tuner {
namespace {

// A model may be wrong, but hardly by this factor: a template predicted so much slower than the best gets no place of
// its own.
constexpr double kHopeless = 1.6;
// A default is a point of comparison, so it gets more credit.
constexpr double kHopelessDefault = 3;
// Points predicted this close to the best are all as good as the model can tell.
constexpr double kNearBest = 1.3;
// A cost model that does not see a parameter predicts alike for all its values; so many of one prediction are enough.
constexpr int kAlike = 2;
// Where few are that close, so many of the best stand in; and no more than the most, since the search for what is most
// unlike looks at every one of them for each choice.
constexpr std::size_t kFewestNear = 200;
constexpr std::size_t kMostNear = 4000;

bool is_hopeless(const Point& point, double best_us, double factor) {
  return point.predicted_us > factor * best_us && best_us > 0;
}

// Fills a shortlist from several orders of preference.
class Chooser {
 public:
  Chooser(const SearchSpace& space, std::size_t count) : space_(space), count_(count) {}

  bool full() const { return chosen_.size() >= count_; }
  bool has(std::size_t point) const { return std::find(chosen_.begin(), chosen_.end(), point) != chosen_.end(); }
  bool take(std::size_t point) {
    if (full() || has(point)) return false;
    chosen_.push_back(point);
    return true;
  }

  // The first of `order` from `*next` on that is not like another (see shortlist()); moves `*next` past it.
  bool take_next(const std::vector<std::size_t>& order, std::size_t* next, int min_distance) {
    for (; *next < order.size(); ++*next) {
      const std::size_t point = order[*next];
      if (has(point) || is_like_another(point, min_distance)) continue;
      ++*next;
      return take(point);
    }
    return false;
  }

  // The one of `points` that differs in most parameters from whatever it is most like; the first of several.
  bool take_most_unlike(const std::vector<std::size_t>& points) {
    std::optional<std::size_t> best;
    int best_distance = 0;
    for (const std::size_t point : points) {
      const int away = distance_to_chosen(point);
      if (away > best_distance) {
        best = point;
        best_distance = away;
      }
    }
    return best && take(*best);
  }

  std::vector<std::size_t> chosen() && { return std::move(chosen_); }

 private:
  // Templates are unlike whatever their parameters.
  static constexpr int kFar = 1000;

  int distance_between(std::size_t a, std::size_t b) const {
    const Point& first = space_.points()[a];
    const Point& second = space_.points()[b];
    return first.kernel_template == second.kernel_template ? distance(first.config, second.config) : kFar;
  }

  int distance_to_chosen(std::size_t point) const {
    int nearest = kFar;
    for (const std::size_t other : chosen_) nearest = std::min(nearest, distance_between(point, other));
    return nearest;
  }

  bool is_like_another(std::size_t point, int min_distance) const {
    int alike = 0;
    for (const std::size_t other : chosen_) {
      const int away = distance_between(point, other);
      if (away < min_distance) return true;
      if (away < kFar && min_distance > 1 &&
          space_.points()[other].predicted_us == space_.points()[point].predicted_us) {
        ++alike;
      }
    }
    return alike >= kAlike;
  }

  const SearchSpace& space_;
  std::size_t count_;
  std::vector<std::size_t> chosen_;
};

// The points that the model cannot tell from the best, and for each template but the best one's, its points by
// prediction.
struct Preferences {
  std::vector<std::size_t> by_prediction;
  std::vector<std::size_t> near_best;
  std::vector<std::vector<std::size_t>> other_templates;
};

Preferences prefer(const SearchSpace& space) {
  Preferences preferences;
  preferences.by_prediction = space.by_prediction();
  if (preferences.by_prediction.empty()) return preferences;
  const Point& best = space.points()[preferences.by_prediction.front()];
  std::vector<std::vector<std::size_t>> by_template(space.templates().size());
  for (const std::size_t point : preferences.by_prediction) {
    const Point& candidate = space.points()[point];
    const std::size_t near = preferences.near_best.size();
    const bool is_near = near < kFewestNear || !is_hopeless(candidate, best.predicted_us, kNearBest);
    const bool has_rank = candidate.predicted_us > 0 || best.predicted_us <= 0;
    if (is_near && has_rank && near < kMostNear) preferences.near_best.push_back(point);
    if (candidate.kernel_template == best.kernel_template || is_hopeless(candidate, best.predicted_us, kHopeless))
      continue;
    by_template[candidate.kernel_template].push_back(point);
  }
  for (std::vector<std::size_t>& points : by_template) {
    if (!points.empty()) preferences.other_templates.push_back(std::move(points));
  }
  return preferences;
}

}  // namespace

std::vector<std::size_t> shortlist(const SearchSpace& space, std::span<const std::size_t> first, std::size_t count) {
  Chooser chooser(space, count);
  for (const std::size_t point : first) chooser.take(point);
  const Preferences preferences = prefer(space);
  const double best_us =
      preferences.by_prediction.empty() ? 0 : space.points()[preferences.by_prediction.front()].predicted_us;
  for (const std::size_t point : space.defaults()) {
    const bool is_first = space.points()[point].kernel_template == 0;
    if (is_first || !is_hopeless(space.points()[point], best_us, kHopelessDefault)) chooser.take(point);
  }

  for (const int min_distance : {2, 1}) {
    std::size_t next = 0;
    std::vector<std::size_t> next_of(preferences.other_templates.size(), 0);
    bool progress = true;
    for (std::size_t turn = 0; progress && !chooser.full(); ++turn) {
      progress = chooser.take_next(preferences.by_prediction, &next, min_distance);
      progress = chooser.take_most_unlike(preferences.near_best) || progress;
      // Every other turn: a rival template's best seldom wins, but it must be seen.
      if (turn % 2 == 1 || next_of.empty()) continue;
      const std::size_t t = turn / 2 % next_of.size();
      progress = chooser.take_next(preferences.other_templates[t], &next_of[t], min_distance) || progress;
    }
  }
  return std::move(chooser).chosen();
}

}  // namespace kiln::tuner
