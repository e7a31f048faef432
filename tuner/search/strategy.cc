#include "tuner/search/strategy.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "tuner/search/correction.h"
#include "tuner/search/shortlist.h"

namespace kiln::tuner {
namespace {

std::vector<std::size_t> untried(std::vector<std::size_t> points, const History& history, std::size_t room) {
  std::erase_if(points, [&](std::size_t point) { return history.tried(point); });
  if (points.size() > room) points.resize(room);
  return points;
}

// std::uniform_int_distribution may differ between standard libraries; this does not.
std::size_t draw(std::mt19937_64& random, std::size_t count) { return static_cast<std::size_t>(random() % count); }

// Points in an order fixed beforehand.
class Listed : public Strategy {
 public:
  Listed(std::vector<std::size_t> order, std::size_t batch) : order_(std::move(order)), batch_(batch) {}

  std::vector<std::size_t> propose(const History& history, std::size_t room) override {
    std::vector<std::size_t> points;
    for (; next_ < order_.size() && points.size() < std::min(room, batch_); ++next_)
      take(points, history, order_[next_]);
    return points;
  }

  std::vector<std::size_t> upcoming(const History& history, std::size_t count) const override {
    std::vector<std::size_t> points;
    for (std::size_t i = next_; i < order_.size() && points.size() < count; ++i) take(points, history, order_[i]);
    return points;
  }

 private:
  static void take(std::vector<std::size_t>& points, const History& history, std::size_t point) {
    if (!history.tried(point) && std::find(points.begin(), points.end(), point) == points.end())
      points.push_back(point);
  }

  std::vector<std::size_t> order_;
  std::size_t batch_;
  std::size_t next_ = 0;
};

// Best predictions first, so that a budget cuts off the least promising. What has no prediction is never left out.
std::vector<std::size_t> every_point(const SearchSpace& space, double within) {
  std::vector<std::size_t> order = space.by_prediction();
  if (within <= 0 || order.empty()) return order;
  const double most = within * space.points()[order.front()].predicted_us;
  std::erase_if(order, [&](std::size_t point) { return space.points()[point].predicted_us > most; });
  return order;
}

std::vector<std::size_t> random_order(const SearchSpace& space, const StrategyOptions& options) {
  std::vector<std::size_t> order(space.points().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(options.seed);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw(random, i)]);
  // What is known to work stands first: a random search must not end worse than the default.
  std::vector<std::size_t> first = options.seeds;
  first.insert(first.end(), space.defaults().begin(), space.defaults().end());
  order.insert(order.begin(), first.begin(), first.end());
  return order;
}

// Half of what may be tried is a shortlist. The rest comes in small steps: the points that the model, corrected by what
// was measured so far, expects most of, in turn with neighbours of the two best.
class Automatic : public Strategy {
 public:
  Automatic(const SearchSpace& space, const StrategyOptions& options) : space_(space) {
    shortlist_ = shortlist(space, options.seeds, std::max<std::size_t>(1, (options.max_candidates + 1) / 2));
    step_ = std::max<std::size_t>(2, options.max_candidates / 4);
  }

  std::vector<std::size_t> propose(const History& history, std::size_t room) override {
    if (!shortlisted_) {
      shortlisted_ = true;
      std::vector<std::size_t> batch = untried(shortlist_, history, room);
      if (!batch.empty()) return batch;
    }
    return next_step(history, std::min(room, step_));
  }

 private:
  std::vector<std::size_t> next_step(const History& history, std::size_t count) const {
    const Correction correction(space_, history);
    std::vector<std::size_t> hopeful;
    std::vector<double> expected(space_.points().size());
    for (std::size_t point = 0; point < expected.size(); ++point) {
      if (history.tried(point)) continue;
      expected[point] = correction.expected_us(point, kOptimism);
      hopeful.push_back(point);
    }
    const auto better = [&](std::size_t a, std::size_t b) {
      return std::pair(expected[a], a) < std::pair(expected[b], b);
    };
    const std::size_t kept = std::min(count, hopeful.size());
    std::partial_sort(hopeful.begin(), hopeful.begin() + static_cast<std::ptrdiff_t>(kept), hopeful.end(), better);
    hopeful.resize(kept);

    std::vector<std::size_t> near;
    for (const std::size_t parent : history.best(2)) {
      for (const std::size_t point : space_.neighbours(parent)) {
        if (!history.tried(point)) near.push_back(point);
      }
    }
    std::stable_sort(near.begin(), near.end(), better);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; chosen.size() < count && (i < hopeful.size() || i < near.size()); ++i) {
      for (const std::vector<std::size_t>* list : {&hopeful, &near}) {
        if (i >= list->size() || chosen.size() == count) continue;
        if (std::find(chosen.begin(), chosen.end(), (*list)[i]) == chosen.end()) chosen.push_back((*list)[i]);
      }
    }
    return chosen;
  }

  // What is not known of a point counts for it a little, or the search would stay where it has been.
  static constexpr double kOptimism = 0.5;

  const SearchSpace& space_;
  std::vector<std::size_t> shortlist_;
  std::size_t step_ = 0;
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
      if (!history.tried(point) && std::find(points.begin(), points.end(), point) == points.end())
        points.push_back(point);
    }
    return points;
  }

  const SearchSpace& space_;
  std::mt19937_64 random_;
  std::vector<std::size_t> first_;
  std::size_t generation_ = 4;
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Strategy> make_strategy(const SearchSpace& space, const StrategyOptions& options) {
  switch (options.kind) {
    case SearchKind::exhaustive:
      return std::make_unique<Listed>(every_point(space, options.within), options.batch);
    case SearchKind::random:
      return std::make_unique<Listed>(random_order(space, options), options.batch);
    case SearchKind::evolve:
      return std::make_unique<Evolve>(space, options);
    case SearchKind::automatic:
      break;
  }
  return std::make_unique<Automatic>(space, options);
}

}  // namespace kiln::tuner
