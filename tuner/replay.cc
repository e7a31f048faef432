#include "tuner/replay.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "tuner/candidate.h"
#include "tuner/search/near_winners.h"
#include "tuner/search/strategy.h"
#include "tuner/tuning.h"

namespace kiln::tuner {
namespace {

// Times of one problem's candidates, by template and configuration.
struct Known {
  Problem problem;
  std::map<std::pair<std::string, std::string>, double> us;
};

std::map<std::string, Known> known_problems(const TemplateSet& templates, Store& store, const std::string& op,
                                            const cuda::DeviceInfo& device, TrialForms forms) {
  std::map<std::string, Known> problems;
  for (const TemplatePtr& t : templates.of_op(op)) {
    if (!left_out({}, t->manifest).empty()) continue;
    for (const MeasuredProblem& measured : measured_problems(store, *t, device, forms)) {
      Known& known = problems[measured.problem.canonical()];
      known.problem = measured.problem;
      for (const MeasuredConfig& each : measured.configs) {
        known.us[{t->manifest.name, to_text(each.config)}] = each.us;
      }
    }
  }
  return problems;
}

// The stored time of every point of the space; infinity where there is none.
std::vector<double> times_of(const SearchSpace& space, const Known& known) {
  std::vector<double> times(space.points().size(), std::numeric_limits<double>::infinity());
  for (std::size_t point = 0; point < times.size(); ++point) {
    const auto us = known.us.find({space.template_of(point).manifest.name, to_text(space.points()[point].config)});
    if (us != known.us.end()) times[point] = us->second;
  }
  return times;
}

History search(const SearchSpace& space, const std::vector<double>& times, const ReplayOptions& options,
               std::vector<std::size_t> seeds) {
  StrategyOptions strategy_options;
  strategy_options.max_candidates = options.max_candidates;
  strategy_options.seed = options.seed;
  strategy_options.seeds = std::move(seeds);
  const std::unique_ptr<Strategy> strategy = make_strategy(space, strategy_options);
  History history;
  while (history.size() < options.max_candidates) {
    const std::vector<std::size_t> proposed = strategy->propose(history, options.max_candidates - history.size());
    if (proposed.empty()) break;
    for (const std::size_t point : proposed) history.record(point, times[point]);
  }
  return history;
}

// Empty where too little is known. `winners` has those of the problems before, and gets this one's.
std::optional<Replay> replay(const TemplateSet& templates, const Known& known, const cuda::DeviceInfo& device,
                             const ReplayOptions& options, std::vector<Decision>* winners) {
  const SearchSpace space(searched_templates(templates, known.problem, device, {}), known.problem, device);
  const std::vector<double> times = times_of(space, known);
  const auto name = [&](std::size_t point) {
    return describe(space.template_of(point).manifest.name, space.points()[point].config);
  };
  const auto is_known = [&](std::size_t point) { return times[point] < std::numeric_limits<double>::infinity(); };

  Replay result;
  result.problem = known.problem;
  for (std::size_t point = 0; point < times.size(); ++point) result.known += is_known(point) ? 1 : 0;
  if (result.known < std::max<std::size_t>(1, options.fewest_known)) return std::nullopt;
  const auto best = static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  result.best_us = times[best];
  result.best = name(best);
  std::vector<std::size_t> seeds;
  add_near_winners(space, *templates.find_op(known.problem.op), known.problem, *winners, options.near_winners, &seeds);
  const History history = search(space, times, options, std::move(seeds));
  result.tried = history.size();
  result.unknown = history.failures();
  for (const std::size_t point : history.best(1)) {
    result.found_us = times[point];
    result.found = name(point);
    Decision& winner = winners->emplace_back();
    winner.problem = known.problem;
    winner.template_name = space.template_of(point).manifest.name;
    winner.config = space.points()[point].config;
  }
  const std::vector<std::size_t> order = space.by_prediction();
  const auto choice = std::find_if(order.begin(), order.end(), is_known);
  if (choice != order.end()) result.model_us = times[*choice];
  return result;
}

}  // namespace

std::vector<Replay> replay_searches(const TemplateSet& templates, Store& store, const std::string& op,
                                    const cuda::DeviceInfo& device, const ReplayOptions& options) {
  templates.find_op(op);  // throws when there is none
  std::vector<Replay> replays;
  std::vector<Decision> winners;
  for (const auto& [canonical, known] : known_problems(templates, store, op, device, options.forms)) {
    if (auto each = replay(templates, known, device, options, &winners)) replays.push_back(std::move(*each));
  }
  return replays;
}

}  // namespace kiln::tuner
