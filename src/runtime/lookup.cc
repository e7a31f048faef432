#include "runtime/lookup.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "kernel/config_scope.h"
#include "kernel/space.h"
#include "kiln/error.h"

namespace kiln {
namespace {

// Beyond a factor of four in every dim a neighbour says little: the cost model knows better.
constexpr double kNearestDistance = 2.0;
// Classes this unlike (about a factor of two in SMs and bandwidth together) do not answer for each other.
constexpr double kNearClassDistance = 2.5;

// Where a decision applies, and how to get at it.
struct Near {
  const Problem* problem;
  double distance;
  std::function<std::optional<Decision>()> decision;
};

}  // namespace

const char* to_string(Rung rung) noexcept {
  switch (rung) {
    case Rung::exact_measured:
      return "exact_measured";
    case Rung::nearest_measured:
      return "nearest_measured";
    case Rung::preset:
      return "preset";
    case Rung::near_preset:
      return "near_preset";
    case Rung::predicted:
      return "predicted";
    case Rung::fallback:
      return "fallback";
  }
  return "unknown";
}

// One walk down the ladder.
class Lookup::Descent {
 public:
  Descent(const Lookup& lookup, const Problem& problem, const std::string& only_template)
      : lookup_(lookup),
        context_(lookup.context_),
        problem_(problem),
        only_template_(only_template),
        op_(context_.templates->find_op(problem.op)) {}

  Answer run() {
    const bool found = exact() || nearest_measured() || presets(0.0, Rung::preset) ||
                       presets(kNearClassDistance, Rung::near_preset) || stored_prediction();
    if (!found) {
      const std::vector<TemplatePtr> templates = accepting();
      if (!computed_prediction(templates)) fallback(templates);
    }
    return std::move(answer_);
  }

 private:
  void note(std::string text) { answer_.notes.push_back(std::move(text)); }

  // Every template that takes the problem: what only the lowest rungs need, since reading a manifest takes
  // milliseconds. Throws Error{unsupported} when there is none.
  std::vector<TemplatePtr> accepting() {
    std::vector<TemplatePtr> templates;
    std::vector<std::string> reasons;
    for (const TemplatePtr& t : context_.templates->of_op(problem_.op)) {
      if (!only_template_.empty() && t->manifest.name != only_template_) continue;
      std::string reason = rejection(*t, problem_, context_.device);
      if (reason.empty() && only_template_.empty() && !t->manifest.deterministic)
        reason = "its results differ from run to run, so it must be named or tuned for";
      if (reason.empty())
        templates.push_back(t);
      else
        reasons.push_back(t->manifest.name + ": " + reason);
    }
    for (const std::string& reason : reasons) note(reason);
    if (templates.empty()) {
      throw Error(ErrorCode::unsupported, "no template of op " + problem_.op + " takes " + problem_.canonical() +
                                              " on " + lookup_.hardware_class_ + ": " + join(reasons, "; "));
    }
    return templates;
  }

  // The template that a decision names, or null, having noted why it cannot serve.
  TemplatePtr template_of(const Decision& decision, const std::string& who) {
    try {
      TemplatePtr t = context_.templates->find(decision.template_name);
      const bool wanted = only_template_.empty() || only_template_ == decision.template_name;
      const std::string reason = t->manifest.op != problem_.op ? "it is of op " + t->manifest.op
                                 : wanted                      ? rejection(*t, problem_, context_.device)
                                                               : "only " + only_template_ + " was asked for";
      if (reason.empty()) return t;
      note(who + " does not take this problem here: " + reason);
    } catch (const Error& error) {
      note(who + " does not take this problem here: " + error.what());
    }
    return nullptr;
  }

  bool exact() {
    const auto decision = context_.store->find_decision(lookup_.hardware_class_, problem_);
    if (!decision) {
      note("exact_measured: nothing stored for this problem on " + lookup_.hardware_class_);
      return false;
    }
    if (decision->evidence != Evidence::measured) {
      stored_ = decision;
      note("exact_measured: the stored answer is predicted, not measured");
      return false;
    }
    return take(*decision, Rung::exact_measured, "this problem");
  }

  bool nearest_measured() {
    auto all = context_.store->decisions(problem_.op, lookup_.hardware_class_);
    std::erase_if(all, [](const Decision& d) { return d.evidence != Evidence::measured; });
    std::vector<Near> near;
    for (const Decision& decision : all) {
      if (const auto distance = near_distance(decision.problem)) {
        near.push_back({&decision.problem, *distance, [&decision] { return decision; }});
      }
    }
    return take_nearest(std::move(near), all.size(), Rung::nearest_measured);
  }

  bool presets(double max_class_distance, Rung rung) {
    std::vector<Near> near;
    std::size_t considered = 0;
    for (const Preset& preset : lookup_.presets_of(problem_.op)) {
      if (class_distance_to(preset.hardware_class) > max_class_distance) continue;
      ++considered;
      if (const auto distance = near_distance(preset.problem)) {
        near.push_back({&preset.problem, *distance, preset.decision});
      }
    }
    return take_nearest(std::move(near), considered, rung);
  }

  // 0 for this very class, infinity for one of no known profile.
  double class_distance_to(const std::string& other) const {
    if (other == lookup_.hardware_class_) return 0;
    for (const cuda::DeviceInfo& profile : context_.profiles) {
      if (cuda::hardware_class(profile) == other) return cuda::class_distance(context_.device, profile);
    }
    return std::numeric_limits<double>::infinity();
  }

  // Empty where a decision for `other` says nothing of this problem.
  std::optional<double> near_distance(const Problem& other) const {
    const auto distance = problem_distance(*op_, problem_, other);
    return distance && *distance <= kNearestDistance ? distance : std::nullopt;
  }

  bool take_nearest(std::vector<Near> near, std::size_t considered, Rung rung) {
    if (near.empty()) {
      note(std::string(to_string(rung)) + ": no near problem among " + std::to_string(considered));
      return false;
    }
    std::stable_sort(near.begin(), near.end(), [](const Near& a, const Near& b) { return a.distance < b.distance; });
    return std::any_of(near.begin(), near.end(), [&](const Near& candidate) {
      const std::optional<Decision> decision = candidate.decision();
      return decision && take(*decision, rung, candidate.problem->canonical());
    });
  }

  bool stored_prediction() {
    if (!stored_) return false;
    return take(*stored_, Rung::predicted, "this problem, predicted by an earlier run");
  }

  bool computed_prediction(const std::vector<TemplatePtr>& templates) {
    double best = std::numeric_limits<double>::infinity();
    for (const TemplatePtr& t : templates) {
      const Prediction prediction = predict_or_note(*t);
      if (prediction.us <= 0 || prediction.us >= best) continue;
      best = prediction.us;
      answer_.kernel_template = t;
      answer_.config = prediction.config;
    }
    if (answer_.kernel_template == nullptr) {
      note("predicted: no accepting template has a cost model that answers");
      return false;
    }
    answer_.rung = Rung::predicted;
    answer_.source = "the cost model of " + answer_.kernel_template->manifest.name;
    answer_.expected_us = best;
    return true;
  }

  // Without a time where the cost model cannot be evaluated (its numbers overflow, say): the ladder goes on.
  Prediction predict_or_note(const KernelTemplate& t) {
    try {
      Prediction prediction = predict(t, problem_, context_.device);
      if (prediction.us <= 0) return prediction;
      const std::string reason = illegal_reason(t, problem_, prediction.config, context_.device);
      if (reason.empty()) return prediction;
      note("predicted: " + t.manifest.name + " " + to_text(prediction.config) + " is not legal here: " + reason);
    } catch (const Error& error) {
      note("predicted: " + t.manifest.name + ": " + error.what());
    }
    return {};
  }

  void fallback(const std::vector<TemplatePtr>& templates) {
    for (const TemplatePtr& t : templates) {
      const std::string reason = illegal_reason(*t, problem_, t->manifest.fallback, context_.device);
      if (!reason.empty()) {
        note("fallback: the default of " + t->manifest.name + " is not legal here: " + reason);
        continue;
      }
      answer_.kernel_template = t;
      answer_.config = t->manifest.fallback;
      answer_.rung = Rung::fallback;
      answer_.source = "the default of " + t->manifest.name;
      return;
    }
    throw Error(ErrorCode::unsupported, "no template of op " + problem_.op + " has a legal configuration for " +
                                            problem_.canonical() + ": " + join(answer_.notes, "; "));
  }

  // Takes a decision if its template still exists, accepts the actual problem, and the configuration is legal on it.
  bool take(const Decision& decision, Rung rung, const std::string& source) {
    const std::string who =
        std::string(to_string(rung)) + ": " + decision.template_name + " " + to_text(decision.config);
    const TemplatePtr t = template_of(decision, who);
    if (t == nullptr) return false;
    // Whoever accepted results that differ from run to run did so for the problem that was tuned.
    const bool of_another = rung != Rung::exact_measured && rung != Rung::predicted;
    if (of_another && only_template_.empty() && !t->manifest.deterministic) {
      note(who + " is not taken over: its results differ from run to run");
      return false;
    }
    const std::string reason = illegal_reason(*t, problem_, decision.config, context_.device);
    if (!reason.empty()) {
      note(who + " is not legal here: " + reason);
      return false;
    }
    answer_.kernel_template = t;
    answer_.config = decision.config;
    answer_.rung = rung;
    answer_.source = source;
    answer_.expected_us =
        rung == Rung::exact_measured || source == "this problem" ? decision.time_us : scaled(decision);
    answer_.stale = decision.evidence == Evidence::measured && rung <= Rung::nearest_measured &&
                    (decision.template_digest != t->digest.hex() || versions_differ(decision.versions));
    answer_.decision = decision;
    return true;
  }

  // A version this process does not know (NVRTC not loaded, no driver) says nothing.
  bool versions_differ(const Versions& stored) const {
    const Versions& now = context_.versions;
    return (now.driver != 0 && now.driver != stored.driver) || (!now.nvrtc.empty() && now.nvrtc != stored.nvrtc) ||
           now.kiln != stored.kiln;
  }

  // A neighbour's time, in proportion to the work; 0, unknown, where that is too much to count.
  double scaled(const Decision& decision) const {
    try {
      const auto theirs = static_cast<double>(std::max<std::int64_t>(1, flops(*op_, decision.problem)));
      return decision.time_us * static_cast<double>(std::max<std::int64_t>(1, flops(*op_, problem_))) / theirs;
    } catch (const Error&) {
      return 0;
    }
  }

  const Lookup& lookup_;
  const Context& context_;
  const Problem& problem_;
  const std::string& only_template_;
  std::shared_ptr<const OpSpec> op_;
  std::optional<Decision> stored_;
  Answer answer_;
};

Lookup::Lookup(Context context)
    : context_(std::move(context)), hardware_class_(cuda::hardware_class(context_.device)) {}

Answer Lookup::find(const Problem& problem, const std::string& only_template) const {
  return Descent(*this, problem, only_template).run();
}

std::vector<Problem> Lookup::known(const std::string& op) const {
  std::vector<Problem> problems;
  for (Decision& decision : context_.store->decisions(op, hardware_class_)) {
    problems.push_back(std::move(decision.problem));
  }
  for (const Preset& preset : presets_of(op)) {
    if (preset.hardware_class == hardware_class_) problems.push_back(preset.problem);
  }
  return problems;
}

const std::vector<Preset>& Lookup::presets_of(const std::string& op) const {
  const std::lock_guard lock(mutex_);
  const auto found = presets_.find(op);
  if (found != presets_.end()) return found->second;
  return presets_[op] = context_.presets ? context_.presets(op) : std::vector<Preset>{};
}

Prediction predict(const KernelTemplate& t, const Problem& problem, const cuda::DeviceInfo& device) {
  Prediction best{t.manifest.fallback, 0};
  if (!t.manifest.cost_cycles) return best;
  ConfigScope bound(t, problem, device);
  const Evaluator cycles(*t.manifest.cost_cycles, bound.scope());
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for_each_config(bound, {}, [&](const Config& config) {
    const std::int64_t predicted = cycles();
    if (predicted >= fewest) return;
    fewest = predicted;
    best.config = config;
  });
  if (fewest == std::numeric_limits<std::int64_t>::max()) {
    // No listed value is legal: the default, which the manifest promises to be.
    best.us = predicted_us(t, problem, t.manifest.fallback, device);
  } else {
    best.us = static_cast<double>(std::max<std::int64_t>(1, fewest)) / std::max(1, device.clock_mhz);
  }
  return best;
}

}  // namespace kiln
