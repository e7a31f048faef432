#include "tuner/contest.h"

#include "tuner/references.h"

namespace kiln::tuner {
namespace {

class ContestSink : public MeasureSink {
 public:
  ContestSink(Contest& contest, const std::vector<std::size_t>& sent, const std::function<bool()>& stop)
      : contest_(contest), sent_(sent), stop_(stop) {}

  void ended(std::size_t candidate, const Outcome& outcome) override { contest_.outcomes[sent_[candidate]] = outcome; }
  bool stop_requested() override { return stop_ && stop_(); }

 private:
  Contest& contest_;
  const std::vector<std::size_t>& sent_;
  const std::function<bool()>& stop_;
};

}  // namespace

Contest compare(const ContestParts& parts, const Problem& problem, const std::vector<Contender>& contenders,
                const ContestOptions& options) {
  for (const Contender& each : contenders) parts.builder->prefetch(*each.kernel_template, problem, each.config);
  References references(*parts.templates, *parts.builder, *parts.device, *parts.templates->find_op(problem.op),
                        problem);
  Contest contest;
  contest.outcomes.resize(contenders.size());
  MeasureJob job;
  std::vector<std::size_t> sent;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const KernelTemplate& t = *contenders[i].kernel_template;
    const auto built = parts.builder->get(t, problem, contenders[i].config, options.stop);
    const auto reference = built ? references.prepare(t, options.stop) : std::nullopt;
    if (!built || !reference) {
      contest.report.stopped = true;
      return contest;
    }
    if (const auto* failure = std::get_if<Failure>(&*built)) {
      contest.outcomes[i] = *failure;
    } else if (const auto* no_reference = std::get_if<Failure>(&*reference)) {
      contest.outcomes[i] = *no_reference;
    } else {
      Candidate candidate;
      candidate.template_name = t.manifest.name;
      candidate.template_digest = t.digest.hex();
      candidate.config = contenders[i].config;
      candidate.code = std::get<BuiltKernel>(*built).code;
      candidate.reference = std::get<std::size_t>(*reference);
      job.candidates.push_back(std::move(candidate));
      sent.push_back(i);
    }
  }
  if (sent.empty()) return contest;

  references.give_to(job);
  job.problem = problem;
  job.peers = options.peers;
  job.rounds = options.rounds;
  job.cold = options.cold;
  job.screen = options.screen;
  job.seed = options.seed;
  job.candidate_deadline = options.candidate_deadline;
  ContestSink sink(contest, sent, options.stop);
  contest.report = parts.measurer->measure(job, sink);
  return contest;
}

}  // namespace kiln::tuner
