// One problem's way through a tuning run: look into the store, search, measure, decide. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/ledger.h"
#include "tuner/references.h"
#include "tuner/search/strategy.h"
#include "tuner/tuning.h"

namespace kiln::tuner {

class ProblemTuning {
 public:
  using Clock = std::chrono::steady_clock;

  // Everything given by reference must outlive it.
  ProblemTuning(const TuningParts& parts, const TuneOptions& options, KernelBuilder& builder, const StopRule& stop_rule,
                TuneObserver& observer, Problem problem);
  ~ProblemTuning();

  // Looks into the store, enumerates, and starts compiling the first candidates. A problem that cannot be tuned is a
  // result, which execute() then gives.
  void prepare();
  // Does the rest, within `share` where there is one. `while_measuring` is called once, when this problem's first batch
  // is compiled and the compilers are free. Empty when the run was stopped before anything usable was known. A device
  // that no longer serves makes a failed result.
  std::optional<TuneResult> execute(std::optional<Clock::duration> share, const std::function<void()>& while_measuring);

 private:
  class Sink;

  void look_up();
  bool answer_from_store();
  std::vector<std::size_t> known_good();

  bool share_used() const;
  bool search_stopped() const;
  std::vector<std::size_t> propose();
  void search();
  void compile_ahead();
  std::optional<BuiltKernel> build(std::size_t point);
  enum class Faults { refuse, accept };
  std::optional<Candidate> make_candidate(std::size_t point, Faults faults);
  // quick: a first look at many, see MeasureJob; whole: by the protocol.
  enum class Look { quick, whole };
  void measure(const std::vector<std::size_t>& points, Faults faults, Look look);
  void measure_rest();
  void measure_finalists();
  enum class Round { search, finals };
  void run_job(MeasureJob job, const std::vector<std::size_t>& points, Look look, Round round);

  void predict();
  std::optional<TuneResult> decide();
  TuneResult failed(const std::string& message);
  TuneResult finished();

  const TuningParts& parts_;
  const TuneOptions& options_;
  KernelBuilder& builder_;
  const StopRule& stop_rule_;
  TuneObserver& observer_;
  Problem problem_;
  std::string hardware_class_;
  Clock::time_point started_;
  std::optional<Clock::time_point> search_end_;
  Look look_ = Look::whole;  // of the search
  std::function<void()> while_measuring_;
  TuneResult result_;
  std::optional<TuneResult> early_;  // an answer before any work

  std::shared_ptr<const OpSpec> op_;
  std::unique_ptr<SearchSpace> space_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<References> references_;
  std::vector<std::size_t> proposal_;  // the first batch, compiling
  std::optional<std::size_t> incumbent_;
};

}  // namespace kiln::tuner
