#include "tuner/study.h"

#include <algorithm>

#include "kiln/error.h"
#include "runtime/memory_store.h"
#include "tuner/contest.h"
#include "tuner/search/search_space.h"

namespace kiln::tuner {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Of the time left, what the exhaustive searches leave to the comparisons.
constexpr double kComparisonShare = 0.1;

// Passes everything on, but counts through both searches, and keeps which of the exhaustive search's candidates failed.
class StudyObserver : public TuneObserver {
 public:
  StudyObserver(TuneObserver& outer, std::size_t count) : outer_(outer), count_(count) {}

  std::vector<std::string> failed;

  void problem_started(std::size_t, std::size_t, const Problem& problem) override {
    outer_.problem_started(index_, count_, problem);
  }
  void progress(const std::string& stage, std::size_t ended, std::size_t total) override {
    outer_.progress(stage, ended, total);
  }
  void trial_ended(const std::string& candidate, double us, const std::string& failure) override {
    if (!failure.empty()) failed.push_back(candidate);
    outer_.trial_ended(candidate, us, failure);
  }
  void problem_ended(std::size_t, const TuneResult& result) override { outer_.problem_ended(index_++, result); }
  void warning(const std::string& text) override { outer_.warning(text); }
  bool stop_requested() override { return outer_.stop_requested(); }

 private:
  TuneObserver& outer_;
  std::size_t index_ = 0;
  std::size_t count_;
};

class Study {
 public:
  Study(const TuningParts& parts, const TuneOptions& options, std::size_t count, TuneObserver& observer)
      : parts_(parts),
        options_(options),
        observer_(observer, 2 * count),
        builder_(*parts.compiler, *parts.store, parts.versions.nvrtc, parts.device) {
    if (options.budget.count() > 0) end_ = Clock::now() + options.budget;
  }

  std::vector<StudyRow> run(const std::vector<Problem>& problems) {
    std::vector<StudyRow> rows;
    for (const Problem& problem : problems) {
      const std::vector<TuneResult> found = search_by_default(problem, problems);
      if (found.empty()) return rows;
      rows.push_back({.problem = found[0].problem,
                      .failure = {},
                      .found = found[0],
                      .exhaustive = {},
                      .model_template = {},
                      .model_config = {}});
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      observer_.failed.clear();
      const std::vector<TuneResult> best = search_exhaustively(rows[i].problem, rows.size() - i);
      if (best.empty()) {
        rows.resize(i);
        return rows;
      }
      rows[i].exhaustive = best[0];
      compare_winners(rows[i]);
    }
    return rows;
  }

 private:
  milliseconds left() const { return std::chrono::duration_cast<milliseconds>(*end_ - Clock::now()); }
  bool stopped() { return observer_.stop_requested() || (end_ && Clock::now() >= *end_); }

  // A shipped winner of one of the studied problems would give the answer away.
  std::vector<TuneResult> search_by_default(const Problem& problem, const std::vector<Problem>& studied) {
    TuningParts parts = parts_;
    parts.store = &own_store_;
    std::erase_if(parts.presets, [&](const Decision& decision) {
      return std::find_if(studied.begin(), studied.end(), [&](const Problem& each) {
               return decision.problem == complete(*parts_.templates->find_op(each.op), each);
             }) != studied.end();
    });
    TuneOptions options = options_;
    if (end_) options.budget = std::max(milliseconds(1), left());
    if (stopped()) return {};
    const Clock::time_point started = Clock::now();
    std::vector<TuneResult> results = run_tuning(parts, options, {problem}, observer_);
    // All of it counts, the enumeration and the first compiles too, which in a longer run overlap with other problems.
    for (TuneResult& each : results) each.seconds = std::chrono::duration<double>(Clock::now() - started).count();
    return results;
  }

  std::vector<TuneResult> search_exhaustively(const Problem& problem, std::size_t problems_left) {
    if (stopped()) return {};
    TuneOptions options = options_;
    options.search = SearchKind::exhaustive;
    options.resume = false;
    options.noise = 0;  // the fastest, whoever won before
    if (end_) {
      const double share = (1 - kComparisonShare) / static_cast<double>(problems_left);
      options.budget = std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(left() * share));
    }
    return run_tuning(parts_, options, {problem}, observer_);
  }

  void compare_winners(StudyRow& row) {
    if (row.found.failed || row.exhaustive.failed) {
      row.failure = row.found.failed ? row.found.message : row.exhaustive.message;
      return;
    }
    const std::optional<Contender> favourite = model_choice(row);
    std::vector<Contender> contenders;
    const auto enter = [&](const Contender& contender) {
      const auto same = [&](const Contender& other) {
        return other.kernel_template == contender.kernel_template && other.config == contender.config;
      };
      const auto known = std::find_if(contenders.begin(), contenders.end(), same);
      if (known != contenders.end()) return static_cast<std::size_t>(known - contenders.begin());
      contenders.push_back(contender);
      return contenders.size() - 1;
    };
    const std::size_t found = enter({parts_.templates->find(row.found.template_name), parse_config(row.found.config)});
    const std::size_t best =
        enter({parts_.templates->find(row.exhaustive.template_name), parse_config(row.exhaustive.config)});
    const std::optional<std::size_t> model = favourite ? std::optional(enter(*favourite)) : std::nullopt;

    ContestOptions compare_with;
    compare_with.cold = options_.cold;
    compare_with.seed = options_.seed + 2;
    compare_with.candidate_deadline = options_.candidate_deadline;
    compare_with.stop = [this] { return stopped(); };
    parts_.measurer->renew();
    const Contest contest = compare(
        {.templates = parts_.templates, .builder = &builder_, .measurer = parts_.measurer, .device = &parts_.device},
        row.problem, contenders, compare_with);
    builder_.forget_built();
    if (contest.report.foreign_work) {
      row.failure = "other processes computed on the GPU meanwhile";
      return;
    }
    const auto time_of = [&](std::size_t index) {
      const auto* timing = contest.outcomes[index] ? std::get_if<Timing>(&*contest.outcomes[index]) : nullptr;
      return timing == nullptr ? 0.0 : timing->median_us;
    };
    row.found_us = time_of(found);
    row.exhaustive_us = time_of(best);
    if (model) row.model_us = time_of(*model);
    if (row.found_us <= 0 || row.exhaustive_us <= 0) row.failure = "a winner could not be timed again";
  }

  std::optional<Contender> model_choice(StudyRow& row) {
    const SearchSpace space(searched_templates(*parts_.templates, row.problem, parts_.device, options_), row.problem,
                            parts_.device);
    for (const std::size_t point : space.by_prediction()) {
      const KernelTemplate& t = space.template_of(point);
      const std::string name = describe(t.manifest.name, space.points()[point].config);
      if (std::find(observer_.failed.begin(), observer_.failed.end(), name) != observer_.failed.end()) {
        ++row.model_skipped;
        continue;
      }
      row.model_template = t.manifest.name;
      row.model_config = to_text(space.points()[point].config);
      return Contender{parts_.templates->find(t.manifest.name), space.points()[point].config};
    }
    return std::nullopt;
  }

  const TuningParts& parts_;
  const TuneOptions& options_;
  StudyObserver observer_;
  KernelBuilder builder_;
  MemoryStore own_store_;
  std::optional<Clock::time_point> end_;
};

double best_us(const StudyRow& row) {
  double best = std::min(row.found_us, row.exhaustive_us);
  if (row.model_us > 0) best = std::min(best, row.model_us);
  return best;
}

}  // namespace

double StudyRow::found_of_best() const { return found_us > 0 ? best_us(*this) / found_us : 0; }

double StudyRow::model_of_best() const { return model_us > 0 ? best_us(*this) / model_us : 0; }

StudySummary summarise(const std::vector<StudyRow>& rows) {
  StudySummary summary;
  for (const StudyRow& row : rows) {
    summary.most_tried = std::max(summary.most_tried, row.found.tried);
    summary.most_seconds = std::max(summary.most_seconds, row.found.seconds);
    if (!row.failure.empty()) continue;
    const double loss = 1 - row.found_of_best();
    summary.mean_loss += loss;
    summary.worst_loss = std::max(summary.worst_loss, loss);
    summary.model_of_best += row.model_of_best();
    ++summary.compared;
  }
  if (summary.compared > 0) {
    summary.mean_loss /= static_cast<double>(summary.compared);
    summary.model_of_best /= static_cast<double>(summary.compared);
  }
  return summary;
}

std::vector<StudyRow> run_study(const TuningParts& parts, const TuneOptions& options,
                                const std::vector<Problem>& problems, TuneObserver& observer) {
  return Study(parts, options, problems.size(), observer).run(problems);
}

}  // namespace kiln::tuner
