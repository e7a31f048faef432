#include "tuner/search/strategy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

namespace kiln::tuner {
namespace {

// Candidates that are compiled and timed together: enough to interleave, few enough to stop soon.
constexpr std::size_t kBatch = 16;

std::vector<std::size_t> untried(std::vector<std::size_t> points, const History& history, std::size_t room) {
  std::erase_if(points, [&](std::size_t point) { return history.tried(point); });
  if (points.size() > room) points.resize(room);
  return points;
}

// std::uniform_int_distribution may differ between standard libraries; this does not.
std::size_t draw(std::mt19937_64& random, std::size_t count) { return static_cast<std::size_t>(random() % count); }

class Exhaustive : public Strategy {
 public:
  // Best predictions first, so that a budget cuts off the least promising.
  explicit Exhaustive(const SearchSpace& space) : order_(space.by_prediction()) {}

  std::vector<std::size_t> propose(const History& history, std::size_t room) override {
    std::vector<std::size_t> batch;
    while (next_ < order_.size() && batch.size() < std::min(room, kBatch)) {
      if (!history.tried(order_[next_])) batch.push_back(order_[next_]);
      ++next_;
    }
    return batch;
  }

 private:
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
};

class Random : public Strategy {
 public:
  Random(const SearchSpace& space, const StrategyOptions& options) : order_(space.points().size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::mt19937_64 random(options.seed);
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[draw(random, i)]);
    // What is known to work stands first: a random search must not end worse than the default.
    std::vector<std::size_t> first = options.seeds;
    first.insert(first.end(), space.defaults().begin(), space.defaults().end());
    order_.insert(order_.begin(), first.begin(), first.end());
  }

  std::vector<std::size_t> propose(const History& history, std::size_t room) override {
    std::vector<std::size_t> batch;
    for (; next_ < order_.size() && batch.size() < std::min(room, kBatch); ++next_) {
      const std::size_t point = order_[next_];
      if (!history.tried(point) && std::find(batch.begin(), batch.end(), point) == batch.end()) batch.push_back(point);
    }
    return batch;
  }

 private:
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
};

// A shortlist first, two thirds of what may be tried; then the neighbours of the two best, for as long as there are any.
class Automatic : public Strategy {
 public:
  Automatic(const SearchSpace& space, const StrategyOptions& options) : space_(space) {
    const std::size_t count = std::max<std::size_t>(1, (2 * options.max_candidates + 2) / 3);
    shortlist_ = shortlist(space, options.seeds, count);
  }

  std::vector<std::size_t> propose(const History& history, std::size_t room) override {
    if (!shortlisted_) {
      shortlisted_ = true;
      std::vector<std::size_t> batch = untried(shortlist_, history, room);
      if (!batch.empty()) return batch;
    }
    constexpr std::size_t kStep = 8;
    for (const std::size_t parent : history.best(2)) {
      std::vector<std::size_t> near = space_.neighbours(parent);
      std::stable_sort(near.begin(), near.end(), [&](std::size_t a, std::size_t b) {
        return space_.points()[a].predicted_us < space_.points()[b].predicted_us;
      });
      near = untried(std::move(near), history, std::min(room, kStep));
      if (!near.empty()) return near;
    }
    return {};
  }

 private:
  const SearchSpace& space_;
  std::vector<std::size_t> shortlist_;
  bool shortlisted_ = false;
};

// Generations: the parents are the four best so far; a child takes each parameter from one of two parents of the same
// template and then moves one or two parameters to a neighbouring value.
class Evolve : public Strategy {
 public:
  Evolve(const SearchSpace& space, const StrategyOptions& options) : space_(space), random_(options.seed) {
    first_ = shortlist(space, options.seeds, std::max<std::size_t>(2, options.max_candidates / 3));
    generation_ = std::max<std::size_t>(2, options.max_candidates / 6);
  }

  std::vector<std::size_t> propose(const History& history, std::size_t room) override {
    if (!started_) {
      started_ = true;
      std::vector<std::size_t> batch = untried(first_, history, room);
      if (!batch.empty()) return batch;
    }
    const std::vector<std::size_t> parents = history.best(4);
    if (parents.empty()) return random_points(history, room);
    std::vector<std::size_t> children;
    // Late in a search most children are known already; so many tries are enough to say that it has converged.
    for (int attempt = 0; attempt < 200 && children.size() < std::min(room, generation_); ++attempt) {
      const std::optional<std::size_t> child = breed(parents);
      if (!child || history.tried(*child)) continue;
      if (std::find(children.begin(), children.end(), *child) == children.end()) children.push_back(*child);
    }
    return children;
  }

 private:
  std::optional<std::size_t> breed(const std::vector<std::size_t>& parents) {
    const std::size_t mother = parents[draw(random_, parents.size())];
    const std::size_t father = parents[draw(random_, parents.size())];
    const Point& base = space_.points()[mother];
    Config config = base.config;
    if (space_.points()[father].kernel_template == base.kernel_template) {
      for (auto& [name, value] : config) {
        if (draw(random_, 2) == 0) value = space_.points()[father].config.at(name);
      }
    }
    std::optional<std::size_t> child = space_.find(space_.template_of(mother).manifest.name, config);
    const std::size_t moves = 1 + draw(random_, 2);
    for (std::size_t move = 0; child && move < moves; ++move) {
      const std::vector<std::size_t> near = space_.neighbours(*child);
      if (near.empty()) break;
      child = near[draw(random_, near.size())];
    }
    return child;
  }

  std::vector<std::size_t> random_points(const History& history, std::size_t room) {
    std::vector<std::size_t> points;
    for (int attempt = 0; attempt < 200 && points.size() < std::min(room, generation_); ++attempt) {
      const std::size_t point = draw(random_, space_.points().size());
      if (!history.tried(point) && std::find(points.begin(), points.end(), point) == points.end()) points.push_back(point);
    }
    return points;
  }

  const SearchSpace& space_;
  std::mt19937_64 random_;
  std::vector<std::size_t> first_;
  std::size_t generation_ = 4;
  bool started_ = false;
};

// A model may be wrong, but hardly by this factor: a point predicted so much slower than the best gets no place of its own.
constexpr double kHopeless = 3;
// A default is a point of comparison, so it gets more credit.
constexpr double kHopelessDefault = 8;

bool is_hopeless(const Point& point, double best_us, double factor) {
  return point.predicted_us > factor * best_us && best_us > 0;
}

// Takes from `order` what is unlike everything of the same template in `chosen`, until `chosen` holds `count`.
class Chooser {
 public:
  Chooser(const SearchSpace& space, std::size_t count) : space_(space), count_(count) {}

  bool full() const { return chosen_.size() >= count_; }
  bool has(std::size_t point) const { return std::find(chosen_.begin(), chosen_.end(), point) != chosen_.end(); }
  void take(std::size_t point) {
    if (!full() && !has(point)) chosen_.push_back(point);
  }
  // The first of `order` from `*next` on that is new enough; moves `*next` past it.
  bool take_next(const std::vector<std::size_t>& order, std::size_t* next, int min_distance) {
    for (; *next < order.size(); ++*next) {
      const std::size_t point = order[*next];
      if (has(point) || is_like_another(point, min_distance)) continue;
      chosen_.push_back(point);
      ++*next;
      return true;
    }
    return false;
  }
  std::vector<std::size_t> chosen() && { return std::move(chosen_); }

 private:
  bool is_like_another(std::size_t point, int min_distance) const {
    const Point& candidate = space_.points()[point];
    return std::any_of(chosen_.begin(), chosen_.end(), [&](std::size_t other) {
      const Point& known = space_.points()[other];
      return known.kernel_template == candidate.kernel_template &&
             distance(known.config, candidate.config) < min_distance;
    });
  }

  const SearchSpace& space_;
  std::size_t count_;
  std::vector<std::size_t> chosen_;
};

}  // namespace

void History::record(std::size_t point, double us) { times_[point] = us; }

std::size_t History::failures() const {
  return static_cast<std::size_t>(
      std::count_if(times_.begin(), times_.end(), [](const auto& entry) { return !std::isfinite(entry.second); }));
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

std::vector<std::size_t> shortlist(const SearchSpace& space, std::span<const std::size_t> first, std::size_t count) {
  Chooser chooser(space, count);
  for (const std::size_t point : first) chooser.take(point);
  const std::vector<std::size_t> order = space.by_prediction();
  const double best_us = order.empty() ? 0 : space.points()[order.front()].predicted_us;
  for (const std::size_t point : space.defaults()) {
    const bool is_first = space.points()[point].kernel_template == 0;
    if (is_first || !is_hopeless(space.points()[point], best_us, kHopelessDefault)) chooser.take(point);
  }

  std::vector<std::vector<std::size_t>> by_template(space.templates().size());
  for (const std::size_t point : order) {
    const Point& candidate = space.points()[point];
    if (!is_hopeless(candidate, best_us, kHopeless)) by_template[candidate.kernel_template].push_back(point);
  }
  for (const int min_distance : {2, 1}) {
    std::size_t next = 0;
    std::vector<std::size_t> next_of(by_template.size(), 0);
    bool progress = true;
    for (std::size_t turn = 0; progress && !chooser.full(); ++turn) {
      progress = chooser.take_next(order, &next, min_distance);
      if (chooser.full()) break;
      const std::size_t t = turn % by_template.size();
      progress = chooser.take_next(by_template[t], &next_of[t], min_distance) || progress;
    }
  }
  return std::move(chooser).chosen();
}

std::unique_ptr<Strategy> make_strategy(const SearchSpace& space, const StrategyOptions& options) {
  switch (options.kind) {
    case SearchKind::exhaustive: return std::make_unique<Exhaustive>(space);
    case SearchKind::random: return std::make_unique<Random>(space, options);
    case SearchKind::evolve: return std::make_unique<Evolve>(space, options);
    case SearchKind::automatic: break;
  }
  return std::make_unique<Automatic>(space, options);
}

}  // namespace kiln::tuner
