#include "tuner/ledger.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "tuner/decision_rule.h"

namespace kiln::tuner {
namespace {

constexpr double kFailed = std::numeric_limits<double>::infinity();

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Ledger::Ledger(const TuningParts& parts, const TuneOptions& options, TuneObserver& observer, const Problem& problem,
               const SearchSpace& space)
    : parts_(parts),
      options_(options),
      observer_(observer),
      problem_(problem),
      space_(space),
      hardware_class_(cuda::hardware_class(parts.device)) {}

std::string Ledger::name_of(std::size_t point) const {
  return describe(space_.template_of(point).manifest.name, space_.points()[point].config);
}

void Ledger::reuse_stored_trials() {
  for (const Trial& trial : parts_.store->trials(hardware_class_, problem_)) {
    if (trial.evidence != Evidence::measured || trial.versions != parts_.versions) continue;
    const std::optional<std::size_t> point = space_.find(trial.template_name, trial.config);
    if (!point || space_.template_of(*point).digest.hex() != trial.template_digest) continue;
    if (trial.timing) {
      history_.record(*point, trial.timing->median_us);
      timings_[*point] = *trial.timing;
    } else if (trial.failure && trial.failure->kind != FailureKind::out_of_memory) {
      history_.record(*point, kFailed);
      if (trial.failure->kind == FailureKind::resources) faulty_.push_back(*point);
    }
  }
}

bool Ledger::note_kernel(std::size_t point, const BuiltKernel& kernel) {
  const auto [entry, is_new] = footprints_.try_emplace(point);
  entry->second = {.registers = kernel.registers(),
                   .spill_bytes = kernel.spill_bytes(),
                   .shared_bytes = kernel.static_shared_bytes()};
  return is_new;
}

void Ledger::note_dynamic_shared(std::size_t point, int bytes) { footprints_[point].shared_bytes += bytes; }

void Ledger::others_compute() {
  if (contended_) return;
  contended_ = true;
  observer_.warning("other processes compute on this GPU: what is measured now is not stored as measured");
}

std::vector<std::size_t> Ledger::take_out_of_memory() { return std::exchange(out_of_memory_, {}); }

void Ledger::record(std::size_t point, const Outcome& outcome) {
  const auto* timing = std::get_if<Timing>(&outcome);
  std::string failure_text;
  if (timing != nullptr) {
    // A template without a cost model predicts 0, which must not look like the fastest of all.
    const bool unknown = parts_.measurer == nullptr && timing->median_us <= 0;
    history_.record(point, unknown ? std::numeric_limits<double>::max() : timing->median_us);
    timings_[point] = *timing;
  } else {
    const Failure& failure = std::get<Failure>(outcome);
    history_.record(point, kFailed);
    timings_.erase(point);
    failure_text = fmt::format("{}: {}", to_string(failure.kind), failure.message);
    if (failure.kind == FailureKind::out_of_memory) out_of_memory_.push_back(point);
    if (failure.kind == FailureKind::resources) faulty_.push_back(point);
    if (first_failure_.empty()) first_failure_ = name_of(point) + ": " + failure_text;
    log("tuner")->info("discarded {}: {}", name_of(point), failure_text);
  }
  store_trial(point, outcome);
  observer_.trial_ended(name_of(point), timing != nullptr ? timing->median_us : 0, failure_text);
}

void Ledger::record_final(std::size_t point, const Outcome& outcome) {
  record(point, outcome);
  if (const auto* timing = std::get_if<Timing>(&outcome)) finals_[point] = *timing;
}

void Ledger::store_trial(std::size_t point, const Outcome& outcome) {
  // A time taken beside other work says nothing of the candidate; a failure still does.
  if (contended_ && std::holds_alternative<Timing>(outcome)) return;
  const KernelTemplate& t = space_.template_of(point);
  const Footprint footprint = footprints_[point];
  Trial trial;
  trial.hardware_class = hardware_class_;
  trial.problem = problem_.canonical();
  trial.template_name = t.manifest.name;
  trial.template_digest = t.digest.hex();
  trial.config = space_.points()[point].config;
  trial.evidence = parts_.measurer == nullptr ? Evidence::predicted : Evidence::measured;
  if (const auto* timing = std::get_if<Timing>(&outcome)) trial.timing = *timing;
  if (const auto* failure = std::get_if<Failure>(&outcome)) trial.failure = *failure;
  trial.registers = footprint.registers;
  trial.spill_bytes = footprint.spill_bytes;
  trial.shared_bytes = footprint.shared_bytes;
  trial.versions = parts_.versions;
  trial.unix_time = unix_now();
  if (!parts_.store->put_trial(trial)) observer_.warning("a trial could not be stored in " + parts_.store->location());
}

std::vector<std::size_t> Ledger::finalists(std::size_t count, std::optional<std::size_t> incumbent,
                                           std::optional<int> looked_quickly) const {
  std::vector<std::size_t> points = history_.best(looked_quickly ? history_.size() : count);
  if (looked_quickly) {
    std::stable_partition(points.begin(), points.end(),
                          [&](std::size_t point) { return timings_.at(point).batches > *looked_quickly; });
    points.resize(std::min(points.size(), count));
  }
  if (incumbent && history_.tried(*incumbent) && std::isfinite(history_.time(*incumbent)) &&
      std::find(points.begin(), points.end(), *incumbent) == points.end()) {
    points.push_back(*incumbent);
  }
  return points;
}

Ledger::Verdict Ledger::decide(std::optional<std::size_t> incumbent) const {
  const std::map<std::size_t, Timing>& measured = finals_.empty() ? timings_ : finals_;
  std::vector<std::size_t> order;
  for (const auto& [point, timing] : measured) order.push_back(point);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return space_.precedes(a, b); });
  std::vector<Timing> timings;
  std::optional<std::size_t> incumbent_place;
  for (const std::size_t point : order) {
    if (point == incumbent) incumbent_place = timings.size();
    timings.push_back(measured.at(point));
    // As in record(): an unknown prediction is last.
    if (timings.back().median_us <= 0) timings.back().median_us = std::numeric_limits<double>::max();
  }
  const double noise = parts_.measurer == nullptr ? 0 : options_.noise;
  const std::size_t winner = order[choose_winner(timings, incumbent_place, noise)];
  const Timing& timing = measured.at(winner);
  return {.winner = winner, .decision = make_decision(winner, timing), .error = timing.error};
}

Decision Ledger::make_decision(std::size_t winner, const Timing& timing) const {
  const KernelTemplate& t = space_.template_of(winner);
  Decision decision;
  decision.hardware_class = hardware_class_;
  decision.problem = problem_;
  decision.template_name = t.manifest.name;
  decision.template_digest = t.digest.hex();
  decision.config = space_.points()[winner].config;
  decision.evidence = parts_.measurer == nullptr ? Evidence::predicted : Evidence::measured;
  decision.time_us = timing.median_us;
  decision.spread = timing.spread;
  decision.samples = timing.batches;
  if (const auto peer = peers_.find(options_.baseline); peer != peers_.end() && timing.median_us > 0) {
    decision.baseline = peer->first;
    decision.baseline_us = peer->second.median_us;
    decision.margin = peer->second.median_us / timing.median_us - 1;
  }
  decision.ties = ties_of(winner, timing.median_us);
  decision.trials = static_cast<int>(history_.size());
  decision.versions = parts_.versions;
  decision.unix_time = unix_now();
  decision.origin = "tune";
  return decision;
}

// The finals' times where there are some: those of the search were taken at another moment.
std::vector<std::string> Ledger::ties_of(std::size_t winner, double winner_us) const {
  std::vector<std::size_t> points;
  for (const auto& [point, timing] : timings_) {
    const auto final_timing = finals_.find(point);
    const double us = final_timing == finals_.end() ? timing.median_us : final_timing->second.median_us;
    if (point != winner && us > 0 && is_tie(us, winner_us, options_.noise)) points.push_back(point);
  }
  std::sort(points.begin(), points.end(), [&](std::size_t a, std::size_t b) { return space_.precedes(a, b); });
  std::vector<std::string> names;
  for (const std::size_t point : points) names.push_back(name_of(point));
  return names;
}

}  // namespace kiln::tuner
