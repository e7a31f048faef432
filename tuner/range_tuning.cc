#include "tuner/range_tuning.h"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "base/log.h"
#include "kernel/space.h"
#include "kiln/error.h"
#include "runtime/dispatch.h"
#include "tuner/contest.h"
#include "tuner/cover.h"
#include "tuner/range.h"

namespace kiln::tuner {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Of what a budget leaves, the samples' tuning may use so much; the rest is for timing every winner at every sample.
constexpr double kTuningShare = 0.75;
constexpr int kRounds = 7;
// A sample keeps the configuration of the one before where the difference is this small: measuring again would as soon
// find the contrary.
constexpr double kSameTime = 0.005;
constexpr double kNever = std::numeric_limits<double>::infinity();

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A value of the range that was tuned. It is the last of its interval, which begins after the sample before.
struct Sample {
  std::int64_t first;
  std::int64_t last;
  Problem problem;
  TuneResult result;
};

class RangeTuning {
 public:
  RangeTuning(const TuningParts& parts, const TuneOptions& options, const ProblemRange& range, TuneObserver& observer)
      : parts_(parts),
        options_(options),
        observer_(observer),
        hardware_class_(cuda::hardware_class(parts.device)),
        op_(parts.templates->find_op(range.given.op)),
        origin_("range " + range_text(range)),
        builder_(*parts.compiler, *parts.store, parts.versions.nvrtc, parts.device),
        started_(Clock::now()) {
    result_.range = range;
    result_.measured = parts.measurer != nullptr;
    if (options.budget.count() > 0) end_ = started_ + options.budget;
    for (const TemplatePtr& t : parts.templates->of_op(op_->name)) {
      if (left_out(options, t->manifest).empty()) templates_.push_back(t);
    }
    check_range(*op_, range, templates_);
  }

  RangeResult run() {
    if (!tune_samples()) return ended("stopped before every value was tuned; the same command goes on from there");
    if (samples_.empty()) return ended("no value of the range could be tuned: " + result_.samples.front().message);
    if (from_store()) {
      result_.from_store = true;
      report_stored();
      return finished();
    }
    collect_contenders();
    if (!time_all()) return ended("stopped before the winners were timed at every value; run again");
    choose();
    return finished();
  }

 private:
  bool stopped() const { return observer_.stop_requested() || (end_ && Clock::now() >= *end_); }

  RangeResult finished() {
    result_.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    return std::move(result_);
  }
  RangeResult ended(const std::string& message) {
    result_.failed = true;
    result_.message = message;
    return finished();
  }

  // ---- Each value by itself ----

  bool tune_samples() {
    const std::vector<std::int64_t> extents = sample_extents(result_.range, templates_);
    std::vector<Problem> problems;
    for (const std::int64_t extent : extents) {
      problems.push_back(with_extent(*op_, result_.range.given, result_.range.dim, extent));
    }
    TuneOptions options = options_;
    options.budget = std::chrono::duration_cast<milliseconds>(options_.budget * kTuningShare);
    result_.samples = run_tuning(parts_, options, problems, observer_);
    if (result_.samples.size() < problems.size()) return false;

    std::int64_t first = result_.range.first;
    for (std::size_t i = 0; i < problems.size(); ++i) {
      const TuneResult& each = result_.samples[i];
      if (each.failed || each.template_name.empty()) {
        result_.message += fmt::format("{}{}={}: {}", result_.message.empty() ? "" : "; ", result_.range.dim,
                                       extents[i], each.message);
      } else {
        samples_.push_back({first, extents[i], each.problem, each});
      }
      first = extents[i] + 1;
    }
    return true;
  }

  std::optional<Decision> decision_at(const Sample& sample) const {
    return parts_.store->find_decision(hardware_class_, sample.problem);
  }

  // Whether an earlier run over this very range chose everything, and nothing has been tuned since.
  bool from_store() const {
    return std::all_of(samples_.begin(), samples_.end(), [&](const Sample& sample) {
      const auto decision = decision_at(sample);
      return sample.result.from_store && decision && decision->origin == origin_;
    });
  }

  void report_stored() {
    std::set<std::string> kernels;
    for (const Sample& sample : samples_) {
      const auto decision = decision_at(sample);
      kernels.insert(compiled_part(*parts_.templates->find(decision->template_name), decision->config));
      result_.intervals.push_back({.first = sample.first,
                                   .last = sample.last,
                                   .template_name = decision->template_name,
                                   .config = to_text(decision->config),
                                   .time_us = decision->time_us,
                                   .best_us = 0,
                                   .baseline = decision->baseline,
                                   .baseline_us = decision->baseline_us});
      result_.measured = decision->evidence == Evidence::measured;
    }
    result_.kernels = result_.winners = static_cast<int>(kernels.size());
  }

  // ---- Every winner at every value ----

  void collect_contenders() {
    std::set<std::string> kernels;
    for (const Sample& sample : samples_) {
      const Contender winner{parts_.templates->find(sample.result.template_name), parse_config(sample.result.config)};
      kernels.insert(compiled_part(*winner.kernel_template, winner.config));
      const auto same = [&](const Contender& other) {
        return other.kernel_template == winner.kernel_template && other.config == winner.config;
      };
      if (std::none_of(contenders_.begin(), contenders_.end(), same)) contenders_.push_back(winner);
    }
    result_.winners = static_cast<int>(kernels.size());
    times_.assign(contenders_.size(), std::vector<Timing>(samples_.size()));
  }

  bool is_winner(const Contender& contender, const Sample& sample) const {
    return sample.result.template_name == contender.kernel_template->manifest.name &&
           sample.result.config == to_text(contender.config);
  }

  // At both ends of its interval and in the middle. What the winner itself fails at, nobody need pass.
  bool may_serve(const Contender& contender, const Sample& sample) const {
    if (is_winner(contender, sample)) return true;
    for (const std::int64_t extent : {sample.first, sample.first + (sample.last - sample.first) / 2, sample.last}) {
      const Problem problem = with_extent(*op_, result_.range.given, result_.range.dim, extent);
      if (!rejection(*contender.kernel_template, problem, parts_.device).empty()) return false;
      if (!illegal_reason(*contender.kernel_template, problem, contender.config, parts_.device).empty()) return false;
    }
    return true;
  }

  bool time_all() {
    for (std::size_t s = 0; s < samples_.size(); ++s) {
      if (stopped()) return false;
      observer_.progress("finalists", s, samples_.size());
      std::vector<std::size_t> entered;
      for (std::size_t c = 0; c < contenders_.size(); ++c) {
        if (may_serve(contenders_[c], samples_[s])) entered.push_back(c);
      }
      if (parts_.measurer == nullptr) {
        predict(s, entered);
      } else if (!measure(s, entered)) {
        return false;
      }
    }
    return true;
  }

  void predict(std::size_t sample, const std::vector<std::size_t>& entered) {
    for (const std::size_t c : entered) {
      Timing& timing = times_[c][sample];
      timing.median_us =
          predicted_us(*contenders_[c].kernel_template, samples_[sample].problem, contenders_[c].config, parts_.device);
      // Without a cost model nothing is known but that it won where it won.
      if (timing.median_us <= 0 && is_winner(contenders_[c], samples_[sample])) {
        timing.median_us = std::max(1.0, samples_[sample].result.time_us);
      }
    }
  }

  bool measure(std::size_t sample, const std::vector<std::size_t>& entered) {
    std::vector<Contender> contenders;
    for (const std::size_t c : entered) contenders.push_back(contenders_[c]);
    ContestOptions compare_with;
    compare_with.rounds = kRounds;
    compare_with.screen = true;
    compare_with.cold = options_.cold;
    compare_with.seed = options_.seed + 1;
    compare_with.candidate_deadline = options_.candidate_deadline;
    compare_with.stop = [this] { return stopped(); };
    const ContestParts with{
        .templates = parts_.templates, .builder = &builder_, .measurer = parts_.measurer, .device = &parts_.device};
    const Contest contest = compare(with, samples_[sample].problem, contenders, compare_with);
    if (contest.report.stopped) return false;
    if (contest.report.foreign_work && !contended_) {
      contended_ = true;
      observer_.warning("other processes compute on this GPU: what is chosen for the range is not stored");
    }
    for (std::size_t i = 0; i < entered.size(); ++i) {
      const std::optional<Outcome>& outcome = contest.outcomes[i];
      if (!outcome) continue;
      if (const auto* timing = std::get_if<Timing>(&*outcome)) times_[entered[i]][sample] = *timing;
      if (!contended_) store_trial(contenders_[entered[i]], samples_[sample].problem, *outcome);
    }
    return true;
  }

  void store_trial(const Contender& contender, const Problem& problem, const Outcome& outcome) {
    Trial trial;
    trial.hardware_class = hardware_class_;
    trial.problem = problem.canonical();
    trial.template_name = contender.kernel_template->manifest.name;
    trial.template_digest = contender.kernel_template->digest.hex();
    trial.config = contender.config;
    if (const auto* timing = std::get_if<Timing>(&outcome)) trial.timing = *timing;
    if (const auto* failure = std::get_if<Failure>(&outcome)) trial.failure = *failure;
    trial.versions = parts_.versions;
    trial.unix_time = unix_now();
    if (!parts_.store->put_trial(trial))
      log("tuner")->debug("a trial of {} could not be stored", range_text(result_.range));
  }

  // ---- The choice ----

  void choose() {
    std::vector<Server> servers;
    for (std::size_t c = 0; c < contenders_.size(); ++c) {
      Server server{compiled_part(*contenders_[c].kernel_template, contenders_[c].config), {}};
      for (const Timing& timing : times_[c]) server.times.push_back(timing.median_us > 0 ? timing.median_us : kNever);
      servers.push_back(std::move(server));
    }
    const std::vector<std::size_t> choice = cover(servers, options_.range_slack, kSameTime);
    std::set<std::string> kernels;
    for (std::size_t s = 0; s < samples_.size(); ++s) {
      if (choice[s] == servers.size()) continue;  // even the winner failed this time; its decision stays
      kernels.insert(servers[choice[s]].kernel);
      double best_us = kNever;
      for (const Server& server : servers) best_us = std::min(best_us, server.times[s]);
      add_interval(samples_[s], contenders_[choice[s]], times_[choice[s]][s], best_us);
    }
    result_.kernels = static_cast<int>(kernels.size());
    log("tuner")->info("{}: {} kernels serve {} values", range_text(result_.range), kernels.size(), samples_.size());
  }

  void add_interval(const Sample& sample, const Contender& chosen, const Timing& timing, double best_us) {
    const std::string config = to_text(chosen.config);
    result_.intervals.push_back({.first = sample.first,
                                 .last = sample.last,
                                 .template_name = chosen.kernel_template->manifest.name,
                                 .config = config,
                                 .time_us = timing.median_us,
                                 .best_us = best_us,
                                 .baseline = sample.result.baseline,
                                 .baseline_us = sample.result.baseline_us});
    std::optional<Decision> decision = decision_at(sample);
    if (contended_ || !decision) return;
    // What the sample's own tuning found stays where it says more: baseline, trials.
    if (decision->template_name != chosen.kernel_template->manifest.name || decision->config != chosen.config) {
      decision->template_name = chosen.kernel_template->manifest.name;
      decision->template_digest = chosen.kernel_template->digest.hex();
      decision->config = chosen.config;
      decision->time_us = timing.median_us;
      decision->spread = timing.spread;
      decision->samples = timing.batches;
      decision->margin = decision->baseline_us > 0 ? decision->baseline_us / timing.median_us - 1 : 0;
      decision->ties.clear();
    }
    decision->origin = origin_;
    decision->unix_time = unix_now();
    if (!parts_.store->put_decision(*decision)) {
      result_.message = "not stored: " + parts_.store->location() + " cannot be written";
    }
  }

  const TuningParts& parts_;
  const TuneOptions& options_;
  TuneObserver& observer_;
  std::string hardware_class_;
  std::shared_ptr<const OpSpec> op_;
  std::string origin_;
  KernelBuilder builder_;
  Clock::time_point started_;
  std::optional<Clock::time_point> end_;
  std::vector<TemplatePtr> templates_;
  std::vector<Sample> samples_;
  std::vector<Contender> contenders_;
  std::vector<std::vector<Timing>> times_;  // by contender and sample; median 0: none
  bool contended_ = false;
  RangeResult result_;
};

}  // namespace

RangeResult run_range_tuning(const TuningParts& parts, const TuneOptions& options, const ProblemRange& range,
                             TuneObserver& observer) {
  return RangeTuning(parts, options, range, observer).run();
}

}  // namespace kiln::tuner
