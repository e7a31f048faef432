// Every candidate for one problem: the legal configurations of all templates that accept it, with what their cost
// models say, in one list. Immutable after building; thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/device.h"
#include "kernel/template.h"

namespace kiln::tuner {

struct Point {
  std::size_t kernel_template = 0;  // index into SearchSpace::templates()
  Config config;
  double predicted_us = 0;  // 0: its template has no cost model
};

class SearchSpace {
 public:
  // `templates` are those that accept the problem, highest priority first. Each template's default is a point, whether
  // or not its values stand in the manifest's lists. `keep_going` is asked now and then; false ends the enumeration
  // early. Throws Error{invalid_expression}.
  SearchSpace(std::vector<TemplatePtr> templates, const Problem& problem, const cuda::DeviceInfo& device,
              const std::function<bool()>& keep_going = {});

  const std::vector<TemplatePtr>& templates() const noexcept { return templates_; }
  const std::vector<Point>& points() const noexcept { return points_; }
  const KernelTemplate& template_of(std::size_t point) const { return *templates_[points_[point].kernel_template]; }

  std::optional<std::size_t> find(const std::string& template_name, const Config& config) const;
  // The point of that template which differs from `config` in the fewest parameters, at most `most`; of several the one
  // predicted fastest, then the first.
  std::optional<std::size_t> nearest(const std::string& template_name, const Config& config, int most) const;
  // The default of each template, in the templates' order.
  const std::vector<std::size_t>& defaults() const noexcept { return defaults_; }
  // Points of the same template that differ in one parameter by the nearest legal value up or down its list, in the
  // order of the manifest's parameters.
  std::vector<std::size_t> neighbours(std::size_t point) const;
  // Every point: by predicted time, points without a prediction last, then in the fixed order.
  std::vector<std::size_t> by_prediction() const;
  // The fixed order in which ties are broken: template as listed, then configuration as text.
  bool precedes(std::size_t a, std::size_t b) const;
  bool truncated() const noexcept { return truncated_; }

 private:
  std::size_t add(std::size_t kernel_template, const Config& config, double predicted_us);

  std::vector<TemplatePtr> templates_;
  std::vector<Point> points_;
  std::vector<std::size_t> defaults_;
  std::vector<std::unordered_map<std::string, std::size_t>> index_;  // by template: config text → point
  bool truncated_ = false;
};

// In how many parameters two configurations of one template differ.
int distance(const Config& a, const Config& b);

}  // namespace kiln::tuner
