#include "tuner/search/search_space.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernel/config_scope.h"
#include "kernel/space.h"

namespace kiln::tuner {

SearchSpace::SearchSpace(std::vector<TemplatePtr> templates, const Problem& problem, const cuda::DeviceInfo& device,
                         const std::function<bool()>& keep_going)
    : templates_(std::move(templates)), index_(templates_.size()) {
  for (std::size_t i = 0; i < templates_.size(); ++i) {
    const KernelTemplate& t = *templates_[i];
    // The default comes first, so that a run cut short still has something that works.
    defaults_.push_back(add(i, t.manifest.fallback, predicted_us(t, problem, t.manifest.fallback, device)));
    if (keep_going && !keep_going()) {
      truncated_ = true;
      continue;
    }
    ConfigScope bound(t, problem, device);
    std::optional<Evaluator> cycles;
    if (t.manifest.cost_cycles) cycles.emplace(*t.manifest.cost_cycles, bound.scope());
    const double cycles_per_us = std::max(1, device.clock_mhz);
    const SpaceSummary summary = for_each_config(bound, {}, [&](const Config& config) {
      add(i, config, cycles ? static_cast<double>((*cycles)()) / cycles_per_us : 0);
    });
    truncated_ = truncated_ || summary.truncated;
  }
}

std::size_t SearchSpace::add(std::size_t kernel_template, const Config& config, double predicted) {
  const auto [entry, is_new] = index_[kernel_template].emplace(to_text(config), points_.size());
  if (is_new) points_.push_back({.kernel_template = kernel_template, .config = config, .predicted_us = predicted});
  return entry->second;
}

std::optional<std::size_t> SearchSpace::find(const std::string& template_name, const Config& config) const {
  for (std::size_t i = 0; i < templates_.size(); ++i) {
    if (templates_[i]->manifest.name != template_name) continue;
    const auto found = index_[i].find(to_text(config));
    if (found != index_[i].end()) return found->second;
  }
  return std::nullopt;
}

std::optional<std::size_t> SearchSpace::nearest(const std::string& template_name, const Config& config,
                                                int most) const {
  if (const auto same = find(template_name, config)) return same;
  std::optional<std::size_t> best;
  int fewest = most;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (template_of(i).manifest.name != template_name) continue;
    const int away = distance(points_[i].config, config);
    if (away > fewest) continue;
    if (away < fewest || !best || points_[i].predicted_us < points_[*best].predicted_us) best = i;
    fewest = away;
  }
  return best;
}

std::vector<std::size_t> SearchSpace::neighbours(std::size_t point) const {
  const Point& from = points_[point];
  const auto& index = index_[from.kernel_template];
  std::vector<std::size_t> found;
  for (const ParamSpec& param : templates_[from.kernel_template]->manifest.params) {
    std::vector<std::int64_t> values = param.values;
    std::sort(values.begin(), values.end());
    const std::int64_t here = from.config.at(param.name);
    // The nearest value may be illegal with the others as they are; then the next one is tried.
    const auto step_to = [&](auto begin, auto end) {
      for (auto value = begin; value != end; ++value) {
        Config config = from.config;
        config[param.name] = *value;
        if (const auto entry = index.find(to_text(config)); entry != index.end()) {
          found.push_back(entry->second);
          return;
        }
      }
    };
    step_to(std::upper_bound(values.begin(), values.end(), here), values.end());
    step_to(std::make_reverse_iterator(std::lower_bound(values.begin(), values.end(), here)), values.rend());
  }
  return found;
}

std::vector<std::size_t> SearchSpace::by_prediction() const {
  std::vector<std::size_t> order(points_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    return points_[i].predicted_us > 0 ? points_[i].predicted_us : std::numeric_limits<double>::infinity();
  };
  // Points are made template by template in the manifests' order, so a stable sort by index is a fixed order.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

bool SearchSpace::precedes(std::size_t a, std::size_t b) const {
  if (points_[a].kernel_template != points_[b].kernel_template) {
    return points_[a].kernel_template < points_[b].kernel_template;
  }
  return to_text(points_[a].config) < to_text(points_[b].config);
}

int distance(const Config& a, const Config& b) {
  int differing = 0;
  for (const auto& [name, value] : a) {
    const auto other = b.find(name);
    differing += other == b.end() || other->second != value ? 1 : 0;
  }
  return differing;
}

}  // namespace kiln::tuner
