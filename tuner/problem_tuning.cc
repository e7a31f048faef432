#include "tuner/problem_tuning.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/log.h"
#include "kernel/launch_plan.h"
#include "kernel/space.h"
#include "kiln/error.h"
#include "tuner/measure/layout.h"
#include "tuner/measure/peers.h"
#include "tuner/search/near_winners.h"
#include "tuner/search/shortlist.h"

namespace kiln::tuner {
namespace {

// Wide enough that the best is among them although batches of one kernel differ by some per cent under a power cap.
constexpr std::size_t kFinalists = 5;
constexpr int kSearchRounds = 7;
constexpr int kFinalRounds = 15;
// An exhaustive search of more candidates than this first looks at each quickly, so many at a time, and measures so
// many of the best again by the whole protocol. Twice a batch is compiled ahead.
constexpr std::size_t kQuickAbove = 128;
constexpr int kQuickRounds = 2;
constexpr std::size_t kQuickBatch = 64;
constexpr std::size_t kQuickFinalists = 24;
constexpr std::size_t kBatch = 16;
// Winners of other problems that a search starts from: of the store, and of the presets.
constexpr std::size_t kNearStored = 2;
constexpr std::size_t kNearShipped = 1;
// The part of a problem's time that the search may use; the rest is for the finalists.
constexpr double kSearchShare = 0.7;
// How many predicted candidates are really compiled: the model picks among what the compiler accepts.
constexpr std::size_t kPredictedCandidates = 8;
constexpr std::size_t kLastResorts = 4;

}  // namespace

// Takes what the measurer says into this problem's books, as it says it.
class ProblemTuning::Sink : public MeasureSink {
 public:
  Sink(ProblemTuning& tuning, const std::vector<std::size_t>& points, bool are_finalists)
      : tuning_(tuning), points_(points), are_finalists_(are_finalists) {}

  void foreign_work() override { tuning_.ledger_->others_compute(); }
  void checked(std::size_t, double) override { tuning_.observer_.progress("check", ++checked_, points_.size()); }
  void ended(std::size_t candidate, const Outcome& outcome) override {
    const std::size_t point = points_.at(candidate);
    if (are_finalists_) {
      tuning_.ledger_->record_final(point, outcome);
    } else {
      tuning_.ledger_->record(point, outcome);
    }
    tuning_.observer_.progress(are_finalists_ ? "finalists" : "measure", ++ended_, points_.size());
  }
  bool stop_requested() override { return are_finalists_ ? tuning_.stop_rule_.stop() : tuning_.search_stopped(); }

 private:
  ProblemTuning& tuning_;
  const std::vector<std::size_t>& points_;
  bool are_finalists_;
  std::size_t checked_ = 0;
  std::size_t ended_ = 0;
};

ProblemTuning::ProblemTuning(const TuningParts& parts, const TuneOptions& options, KernelBuilder& builder,
                             const StopRule& stop_rule, TuneObserver& observer, Problem problem)
    : parts_(parts),
      options_(options),
      builder_(builder),
      stop_rule_(stop_rule),
      observer_(observer),
      problem_(std::move(problem)),
      hardware_class_(cuda::hardware_class(parts.device)),
      started_(Clock::now()) {
  result_.problem = problem_;
}

ProblemTuning::~ProblemTuning() = default;

TuneResult ProblemTuning::finished() {
  if (ledger_) {
    result_.tried = static_cast<int>(ledger_->history().size());
    result_.failures = static_cast<int>(ledger_->history().failures());
  }
  result_.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  return result_;
}

TuneResult ProblemTuning::failed(const std::string& message) {
  result_.failed = true;
  result_.message = message;
  return finished();
}

// ---- What is known before any work ----

void ProblemTuning::prepare() {
  started_ = Clock::now();
  try {
    look_up();
    if (early_) return;
    StrategyOptions strategy;
    strategy.kind = options_.search;
    strategy.max_candidates = static_cast<std::size_t>(std::max(1, options_.max_candidates));
    strategy.seed = options_.seed;
    strategy.within = options_.exhaustive_within;
    strategy.seeds = known_good();
    if (options_.search == SearchKind::exhaustive && space_->points().size() > kQuickAbove) look_ = Look::quick;
    strategy.batch = look_ == Look::quick ? kQuickBatch : kBatch;
    if (parts_.measurer == nullptr) {
      proposal_ = shortlist(*space_, strategy.seeds, kPredictedCandidates + strategy.seeds.size());
    } else {
      strategy_ = make_strategy(*space_, strategy);
      proposal_ = propose();
    }
    for (const std::size_t point : proposal_) {
      builder_.prefetch(space_->template_of(point), problem_, space_->points()[point].config);
    }
  } catch (const Error& error) {
    early_ = failed(error.what());
  }
}

void ProblemTuning::look_up() {
  op_ = parts_.templates->find_op(problem_.op);
  problem_ = complete(*op_, problem_);
  result_.problem = problem_;
  if (computes_nothing(operand_layouts(*op_, problem_))) {
    result_.message = "the result is empty: there is nothing to tune";
    early_ = finished();
    return;
  }
  if (options_.resume && answer_from_store()) return;

  std::vector<TemplatePtr> accepted;
  std::string reasons;
  for (const TemplatePtr& t : parts_.templates->of_op(problem_.op)) {
    std::string reason = left_out(options_, t->manifest);
    if (reason.empty()) reason = rejection(*t, problem_, parts_.device);
    if (!reason.empty()) {
      reasons += "\n  " + t->manifest.name + ": " + reason;
      continue;
    }
    accepted.push_back(t);
  }
  if (accepted.empty()) {
    early_ =
        failed("no template accepts " + problem_.canonical() + (reasons.empty() ? ": there is none" : ":" + reasons));
    return;
  }
  space_ =
      std::make_unique<SearchSpace>(std::move(accepted), problem_, parts_.device, [&] { return !stop_rule_.stop(); });
  result_.space_size = space_->points().size();
  if (space_->truncated()) observer_.warning("the space is too large to enumerate; a part of it is searched");
  references_ = std::make_unique<References>(*parts_.templates, builder_, parts_.device, *op_, problem_);
  ledger_ = std::make_unique<Ledger>(parts_, options_, observer_, problem_, *space_);
  if (options_.reuse_trials && parts_.measurer != nullptr) ledger_->reuse_stored_trials();
}

// A decision is fresh when the same software made it for the template as it is now.
bool ProblemTuning::answer_from_store() {
  const std::optional<Decision> stored = parts_.store->find_decision(hardware_class_, problem_);
  if (!stored || (parts_.measurer != nullptr && stored->evidence != Evidence::measured)) return false;
  // A measurement outranks any prediction, whatever driver it was made with.
  const bool only_predicting = parts_.measurer == nullptr && stored->evidence == Evidence::measured;
  if (!only_predicting && stored->versions != parts_.versions) return false;
  try {
    const TemplatePtr t = parts_.templates->find(stored->template_name);
    if (!left_out(options_, t->manifest).empty()) return false;
    if (t->digest.hex() != stored->template_digest) return false;
    if (!rejection(*t, problem_, parts_.device).empty()) return false;
    if (!illegal_reason(*t, problem_, stored->config, parts_.device).empty()) return false;
  } catch (const Error&) {
    return false;  // a template that is gone answers nothing
  }
  result_.from_store = true;
  result_.template_name = stored->template_name;
  result_.config = to_text(stored->config);
  result_.measured = stored->evidence == Evidence::measured;
  result_.time_us = stored->time_us;
  result_.spread = stored->spread;
  result_.baseline = stored->baseline;
  result_.baseline_us = stored->baseline_us;
  early_ = finished();
  return true;
}

// The stored winner of this problem, which a challenger must beat, and winners of near problems.
std::vector<std::size_t> ProblemTuning::known_good() {
  std::vector<std::size_t> points;
  if (const auto stored = parts_.store->find_decision(hardware_class_, problem_)) {
    if (const auto point = space_->find(stored->template_name, stored->config)) {
      points.push_back(*point);
      if (stored->evidence == Evidence::measured) incumbent_ = point;
    }
  }
  std::vector<Decision> measured = parts_.store->decisions(problem_.op, hardware_class_);
  std::erase_if(measured, [&](const Decision& d) { return d.evidence != Evidence::measured || d.problem == problem_; });
  add_near_winners(*space_, *op_, problem_, measured, kNearStored, &points);
  std::vector<Decision> shipped = parts_.presets;
  const auto of_this_class = [&](const Decision& d) { return d.hardware_class == hardware_class_; };
  // Winners of other hardware are a start where there are no better ones.
  if (std::any_of(shipped.begin(), shipped.end(), of_this_class)) std::erase_if(shipped, std::not_fn(of_this_class));
  add_near_winners(*space_, *op_, problem_, shipped, kNearShipped, &points);
  return points;
}

// ---- The search ----

bool ProblemTuning::share_used() const { return search_end_ && Clock::now() >= *search_end_; }

// A problem's share may end a search, never keep it from measuring anything at all.
bool ProblemTuning::search_stopped() const { return stop_rule_.stop() || (share_used() && ledger_->has_times()); }

std::vector<std::size_t> ProblemTuning::propose() {
  std::size_t room = std::numeric_limits<std::size_t>::max();
  if (options_.search != SearchKind::exhaustive) {
    const auto most = static_cast<std::size_t>(std::max(1, options_.max_candidates));
    const std::size_t tried = ledger_->history().size();
    room = tried >= most ? 0 : most - tried;
  }
  return room == 0 ? std::vector<std::size_t>{} : strategy_->propose(ledger_->history(), room);
}

std::optional<TuneResult> ProblemTuning::execute(std::optional<Clock::duration> share,
                                                 const std::function<void()>& while_measuring) {
  if (early_) return early_;
  started_ = Clock::now();
  if (options_.search == SearchKind::automatic && options_.problem_limit.count() > 0) {
    share = std::min<Clock::duration>(share.value_or(options_.problem_limit), options_.problem_limit);
  }
  if (share) search_end_ = started_ + std::chrono::duration_cast<Clock::duration>(*share * kSearchShare);
  while_measuring_ = while_measuring;
  try {
    if (parts_.measurer == nullptr) {
      predict();
    } else {
      search();
      measure_rest();
      measure_finalists();
    }
    return decide();
  } catch (const Error& error) {
    return failed(error.what());
  }
}

void ProblemTuning::search() {
  while (!proposal_.empty() && !search_stopped()) {
    measure(proposal_, Faults::refuse, look_);
    proposal_ = propose();
  }
  if (look_ == Look::quick && !search_stopped()) {
    measure(ledger_->history().best(kQuickFinalists), Faults::accept, Look::whole);
  }
}

// What is sure to be proposed is compiled while the GPU measures.
void ProblemTuning::compile_ahead() {
  if (!strategy_) return;
  for (const std::size_t point :
       strategy_->upcoming(ledger_->history(), 2 * (look_ == Look::quick ? kQuickBatch : kBatch))) {
    builder_.prefetch(space_->template_of(point), problem_, space_->points()[point].config);
  }
}

std::optional<BuiltKernel> ProblemTuning::build(std::size_t point) {
  const auto outcome = builder_.get(space_->template_of(point), problem_, space_->points()[point].config,
                                    [&] { return search_stopped(); });
  if (!outcome) return std::nullopt;
  if (const auto* failure = std::get_if<Failure>(&*outcome)) {
    ledger_->record(point, *failure);
    return std::nullopt;
  }
  const BuiltKernel& built = std::get<BuiltKernel>(*outcome);
  result_.compiled += ledger_->note_kernel(point, built) ? 1 : 0;
  return built;
}

// Whether it can be launched at all is seen here, before any GPU is asked.
std::optional<Candidate> ProblemTuning::make_candidate(std::size_t point, Faults faults) {
  const KernelTemplate& t = space_->template_of(point);
  const Config& config = space_->points()[point].config;
  std::optional<BuiltKernel> built = build(point);
  if (!built) return std::nullopt;
  if (const std::string fault = built->resource_fault(); !fault.empty() && faults == Faults::refuse) {
    ledger_->record(point, Failure{.kind = FailureKind::resources, .message = fault, .log = {}});
    return std::nullopt;
  }
  try {
    unsigned dynamic_bytes = 0;
    for (const PlannedLaunch& launch :
         build_plan(t, t.manifest.launches, problem_, config, parts_.device, EncodeMaps::no).launches) {
      dynamic_bytes = std::max(dynamic_bytes, launch.shared_bytes);
    }
    ledger_->note_dynamic_shared(point, static_cast<int>(dynamic_bytes));
  } catch (const Error& error) {
    ledger_->record(point, Failure{.kind = FailureKind::rejected, .message = error.what(), .log = {}});
    return std::nullopt;
  }
  Candidate candidate;
  candidate.template_name = t.manifest.name;
  candidate.template_digest = t.digest.hex();
  candidate.config = config;
  candidate.code = std::move(built->code);
  return candidate;
}

void ProblemTuning::measure(const std::vector<std::size_t>& points, Faults faults, Look look) {
  for (const std::size_t point : points) {
    builder_.prefetch(space_->template_of(point), problem_, space_->points()[point].config);
  }
  MeasureJob job;
  std::vector<std::size_t> built;
  for (std::size_t i = 0; i < points.size() && !search_stopped(); ++i) {
    if (share_used() && !built.empty()) break;
    std::optional<Candidate> candidate = make_candidate(points[i], faults);
    observer_.progress("compile", i + 1, points.size());
    if (!candidate) continue;
    const auto reference = references_->prepare(space_->template_of(points[i]), [&] { return search_stopped(); });
    if (!reference) return;
    if (const auto* failure = std::get_if<Failure>(&*reference)) {
      ledger_->record(points[i], *failure);
      continue;
    }
    candidate->reference = std::get<std::size_t>(*reference);
    job.candidates.push_back(std::move(*candidate));
    built.push_back(points[i]);
  }
  compile_ahead();
  if (while_measuring_) {
    while_measuring_();
    while_measuring_ = {};
  }
  if (!built.empty()) run_job(std::move(job), built, look, Round::search);
}

void ProblemTuning::run_job(MeasureJob job, const std::vector<std::size_t>& points, Look look, Round round) {
  job.problem = problem_;
  job.cold = options_.cold;
  // Finalists are checked on other data than before.
  job.seed = round == Round::search ? options_.seed : options_.seed + 1;
  job.candidate_deadline = options_.candidate_deadline;
  job.rounds = round == Round::finals ? kFinalRounds : look == Look::quick ? kQuickRounds : kSearchRounds;
  job.quick = look == Look::quick;
  job.screen = round == Round::search;
  references_->give_to(job);
  Sink sink(*this, points, round == Round::finals);
  MeasureReport report = parts_.measurer->measure(job, sink);
  for (const std::string& warning : report.warnings) observer_.warning(warning);
  for (const auto& [peer, why] : report.peer_failures) log("tuner")->info("baseline {}: {}", peer, why);
  if (round == Round::finals) ledger_->note_peers(std::move(report.peers));
}

// Memory may be free now that was not; and where everything spills, the least bad must do.
void ProblemTuning::measure_rest() {
  if (search_stopped()) return;
  if (const std::vector<std::size_t> again = ledger_->take_out_of_memory(); !again.empty()) {
    parts_.measurer->renew();
    measure(again, Faults::refuse, Look::whole);
  }
  if (ledger_->history().best(1).empty() && !ledger_->faulty().empty() && !search_stopped()) {
    std::vector<std::size_t> last_resorts = ledger_->faulty();
    if (last_resorts.size() > kLastResorts) last_resorts.resize(kLastResorts);
    measure(last_resorts, Faults::accept, Look::whole);
  }
}

void ProblemTuning::measure_finalists() {
  // A finalist that fails in the fresh process makes room for the next, so this may take more than one turn.
  for (int turn = 0; turn < 3 && !ledger_->has_finals() && !stop_rule_.stop(); ++turn) {
    const std::vector<std::size_t> points =
        ledger_->finalists(kFinalists, incumbent_, look_ == Look::quick ? std::optional(kQuickRounds) : std::nullopt);
    if (points.empty()) return;
    search_end_.reset();
    MeasureJob job;
    std::vector<std::size_t> built;
    for (const std::size_t point : points) {
      std::optional<Candidate> candidate = make_candidate(point, Faults::accept);
      if (!candidate) continue;
      const auto reference = references_->prepare(space_->template_of(point), [&] { return stop_rule_.stop(); });
      if (!reference || std::holds_alternative<Failure>(*reference)) return;
      candidate->reference = std::get<std::size_t>(*reference);
      job.candidates.push_back(std::move(*candidate));
      built.push_back(point);
    }
    const std::vector<std::string> known = peer_names(problem_.op);
    if (std::find(known.begin(), known.end(), options_.baseline) != known.end()) job.peers = {options_.baseline};
    parts_.measurer->renew();
    if (!built.empty()) run_job(std::move(job), built, Look::whole, Round::finals);
  }
}

// ---- Prediction ----

void ProblemTuning::predict() {
  for (std::size_t i = 0; i < proposal_.size() && !stop_rule_.stop(); ++i) {
    const std::size_t point = proposal_[i];
    const std::optional<Candidate> candidate = make_candidate(point, Faults::refuse);
    observer_.progress("compile", i + 1, proposal_.size());
    if (!candidate) continue;
    Timing timing;
    timing.median_us = timing.min_us = timing.max_us = space_->points()[point].predicted_us;
    ledger_->record(point, timing);
  }
}

// ---- Decision ----

std::optional<TuneResult> ProblemTuning::decide() {
  if (!ledger_->has_times()) {
    if (stop_rule_.stop()) return std::nullopt;
    return failed("no candidate is usable; the first failure was " + ledger_->first_failure());
  }
  const auto [winner, decision, error] = ledger_->decide(incumbent_);
  result_.template_name = decision.template_name;
  result_.config = to_text(decision.config);
  result_.measured = decision.evidence == Evidence::measured;
  result_.time_us = decision.time_us;
  result_.spread = decision.spread;
  result_.error = error;
  result_.baseline = decision.baseline;
  result_.baseline_us = decision.baseline_us;
  if (ledger_->is_contended()) {
    result_.message = "not stored: other processes computed on the GPU meanwhile";
  } else if (!parts_.store->put_decision(decision)) {
    result_.message = "not stored: " + parts_.store->location() + " cannot be written";
  }
  log("tuner")->info("{}: {} {:.2f} us, {} ties", problem_.canonical(), ledger_->name_of(winner), decision.time_us,
                     decision.ties.size());
  return finished();
}

}  // namespace kiln::tuner
