#include "tuner/measure/session.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "cuda/driver.h"
#include "cuda/nvml.h"
#include "kiln/error.h"
#include "tuner/measure/checker.h"
#include "tuner/measure/peers.h"
#include "tuner/measure/statistics.h"
#include "tuner/measure/timer.h"

namespace kiln::tuner {
namespace {

// After round i a candidate slower than kScreen[i] times the best is timed no further: halving in the large, and wide
// enough that no noise decides.
constexpr std::array kScreen{2.0, 1.5, 1.25};

cuda::DeviceInfo find_device(const std::string& uuid) {
  std::string known;
  for (const cuda::DeviceInfo& device : cuda::list_devices()) {
    if (device.uuid == uuid) return device;
    known += " " + device.uuid;
  }
  throw Error(ErrorCode::no_device, "no GPU has the UUID " + uuid + "; there are:" + (known.empty() ? " none" : known));
}

Failure to_failure(const Error& error) {
  FailureKind kind = FailureKind::launch;
  if (error.code() == ErrorCode::out_of_memory) kind = FailureKind::out_of_memory;
  if (error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::invalid_expression ||
      error.code() == ErrorCode::invalid_manifest || error.code() == ErrorCode::unsupported) {
    kind = FailureKind::rejected;
  }
  return {.kind = kind, .message = error.what(), .log = {}};
}

// Another library may round as it likes, but it must have solved the same problem.
constexpr double kPeerTolerance = 0.05;

// A candidate or a peer in the interleaved rounds.
struct Contestant {
  std::optional<std::size_t> candidate;
  std::string peer;
  std::unique_ptr<Batch> batch;
  std::vector<double> samples;  // one for each round it ran in
  bool active = true;
};

class Session {
 public:
  Session(const MeasureJob& job, const MeasuringDevice& device, const TemplateSet& templates, SessionSink& sink);

  void run();

 private:
  struct Entry {
    TemplatePtr kernel_template;
    std::unique_ptr<LoadedKernel> kernel;
    double error = 0;
    bool failed = false;
  };

  TemplatePtr find_template(const std::string& name, const std::string& digest) const;
  template <class Work>
  void attempt(std::size_t candidate, Work work);
  void fail(std::size_t candidate, const Failure& failure);
  void load(std::size_t candidate);
  void load_reference(std::size_t index, const TemplatePtr& own_template);
  void check(std::size_t candidate, Checker::Cases cases);
  void check_all();
  void allocate_sets();
  void add_candidates();
  void add_peers();
  void add_peer(const std::string& name);
  void check_peer(const LaunchFunction& variant);
  void time_rounds();
  int run_round(std::size_t round);
  void screen(std::size_t round);
  void touch(const Contestant& contestant);
  void drop(Contestant& contestant, const Error& error);
  void report();
  double batch_us() const { return job_.quick ? kQuickBatchUs : kBatchUs; }
  bool is_valid(std::size_t candidate) const { return entries_[candidate].kernel && !entries_[candidate].failed; }

  const MeasureJob& job_;
  const MeasuringDevice& device_;
  const TemplateSet& templates_;
  SessionSink& sink_;
  std::shared_ptr<const OpSpec> op_;
  std::vector<OperandLayout> layouts_;
  std::vector<ScalarValue> timed_scalars_;
  CheckKernels kernels_;
  std::unique_ptr<Checker> checker_;
  std::optional<std::size_t> current_reference_;
  std::vector<Entry> entries_;
  cuda::DeviceBuffer workspace_;
  std::unique_ptr<OperandSets> sets_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Contestant> contestants_;
  std::vector<int> clocks_mhz_;
  std::uint64_t throttle_reasons_ = 0;
};

Session::Session(const MeasureJob& job, const MeasuringDevice& device, const TemplateSet& templates, SessionSink& sink)
    : job_(job),
      device_(device),
      templates_(templates),
      sink_(sink),
      op_(templates.find_op(job.problem.op)),
      layouts_(operand_layouts(*op_, job.problem)),
      timed_scalars_(scalar_values(*op_, check_cases(*op_, job.problem).front())),
      kernels_(job.check_cubin, job.check_symbols, device.info().sm_count, device.stream()),
      entries_(job.candidates.size()) {}

void Session::run() {
  sink_.preparing();
  checker_ = std::make_unique<Checker>(*op_, job_.problem, kernels_, job_.seed, device_.stream());
  for (std::size_t i = 0; i < job_.candidates.size() && !sink_.stop_requested(); ++i) load(i);
  check_all();
  const bool any_valid =
      std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.kernel && !entry.failed; });
  if (sink_.stop_requested() || (!any_valid && job_.peers.empty())) return;
  sink_.preparing();
  allocate_sets();
  add_candidates();
  add_peers();
  time_rounds();
  report();
}

TemplatePtr Session::find_template(const std::string& name, const std::string& digest) const {
  TemplatePtr found = templates_.find(name);
  if (found->digest.hex() != digest) {
    throw Error(ErrorCode::invalid_argument, "template " + name + " changed while it was being tuned; run again");
  }
  return found;
}

void Session::fail(std::size_t candidate, const Failure& failure) {
  entries_[candidate].failed = true;
  entries_[candidate].kernel.reset();
  sink_.ended(candidate, failure);
}

// Runs `work` on a candidate's behalf: what it throws is the candidate's failure, unless the context is lost with it.
template <class Work>
void Session::attempt(std::size_t candidate, Work work) {
  sink_.touching(candidate);
  try {
    work();
  } catch (const Error& error) {
    if (is_context_lost(error)) throw;
    fail(candidate, to_failure(error));
  }
}

void Session::load(std::size_t candidate) {
  attempt(candidate, [&] {
    const Candidate& wanted = job_.candidates[candidate];
    Entry& entry = entries_[candidate];
    entry.kernel_template = find_template(wanted.template_name, wanted.template_digest);
    const KernelTemplate& t = *entry.kernel_template;
    entry.kernel = std::make_unique<LoadedKernel>(t, t.manifest.launches, job_.problem, wanted.config, wanted.code,
                                                  device_.info(), device_.handle());
  });
}

void Session::load_reference(std::size_t index, const TemplatePtr& own_template) {
  if (current_reference_ == index) return;
  sink_.preparing();
  const Reference& reference = job_.references.at(index);
  const TemplatePtr t =
      reference.own_launches ? own_template : find_template(reference.template_name, reference.template_digest);
  const LoadedKernel kernel(*t, reference.own_launches ? t->manifest.check_launches : t->manifest.launches,
                            reference_problem(*op_, job_.problem), reference.config, reference.code, device_.info(),
                            device_.handle());
  checker_->set_reference(kernel);
  current_reference_ = index;
}

void Session::check(std::size_t candidate, Checker::Cases cases) {
  Entry& entry = entries_[candidate];
  load_reference(job_.candidates[candidate].reference, entry.kernel_template);
  attempt(candidate, [&] {
    const double bound = tolerance(entry.kernel_template->manifest, *op_, job_.problem);
    const std::variant<double, Failure> outcome = checker_->check(launchable(*entry.kernel), bound, cases);
    if (const auto* failure = std::get_if<Failure>(&outcome)) {
      fail(candidate, *failure);
      return;
    }
    entry.error = std::max(entry.error, std::get<double>(outcome));
  });
}

void Session::check_all() {
  for (std::size_t i = 0; i < entries_.size() && !sink_.stop_requested(); ++i) {
    if (!is_valid(i)) continue;
    if (const auto& known = job_.candidates[i].checked_error) {
      entries_[i].error = *known;
      continue;
    }
    check(i, job_.quick ? Checker::Cases::first : Checker::Cases::all);
    if (is_valid(i)) sink_.checked(i, entries_[i].error);
  }
}

void Session::allocate_sets() {
  std::uint64_t workspace_bytes = 0;
  for (const Entry& entry : entries_) {
    if (entry.kernel) workspace_bytes = std::max(workspace_bytes, entry.kernel->workspace_bytes());
  }
  workspace_ = cuda::DeviceBuffer(workspace_bytes);
  const std::int64_t bytes = set_bytes(layouts_);
  const std::int64_t l2 = device_.info().l2_bytes;
  const int count = rotation_sets(bytes, l2, memory_budget(), job_.cold);
  if (job_.cold && count < rotation_sets(bytes, l2, std::numeric_limits<std::int64_t>::max(), true)) {
    sink_.warning(fmt::format("only {} sets of operands fit in the memory that is free; the L2 may stay warm", count));
  }
  sets_ = std::make_unique<OperandSets>(layouts_, count);
  sets_->fill(kernels_, layouts_, job_.seed + 1);
  cuda::check(cuda::driver().cuStreamSynchronize(device_.stream()), "cuStreamSynchronize");
}

void Session::add_candidates() {
  for (std::size_t i = 0; i < entries_.size() && !sink_.stop_requested(); ++i) {
    if (!is_valid(i)) continue;
    attempt(i, [&] {
      const LoadedKernel& kernel = *entries_[i].kernel;
      if (kernel.launches_nothing()) throw Error(ErrorCode::invalid_argument, "nothing to launch for this problem");
      const CUdeviceptr workspace = kernel.workspace_bytes() > 0 ? workspace_.get() : 0;
      const LaunchFunction launch = [this, &kernel, workspace](std::span<const CUdeviceptr> pointers, CUstream stream) {
        kernel.launch(pointers, timed_scalars_, workspace, stream);
      };
      Contestant contestant;
      contestant.candidate = i;
      contestant.batch = std::make_unique<Batch>(launch, *sets_, device_.stream(), batch_us());
      contestants_.push_back(std::move(contestant));
    });
  }
}

void Session::add_peers() {
  for (const std::string& name : job_.peers) {
    if (sink_.stop_requested()) return;
    sink_.touching_peer(name);
    try {
      add_peer(name);
    } catch (const Error& error) {
      if (is_context_lost(error)) throw;
      sink_.peer_failed(name, error.what());
    }
  }
}

// Of several variants the fastest of two batches goes into the rounds.
void Session::add_peer(const std::string& name) {
  std::unique_ptr<Peer> peer = make_peer(name, *op_, job_.problem);
  Contestant best;
  best.peer = name;
  double best_us = std::numeric_limits<double>::infinity();
  std::string last_failure;
  for (const LaunchFunction& variant : peer->variants()) {
    try {
      check_peer(variant);
      auto batch = std::make_unique<Batch>(variant, *sets_, device_.stream(), batch_us());
      double us = std::numeric_limits<double>::infinity();
      for (int repeat = 0; repeat < 2; ++repeat) {
        batch->start();
        us = std::min(us, batch->finish());
      }
      if (us < best_us) {
        best_us = us;
        best.batch = std::move(batch);
      }
    } catch (const Error& error) {
      if (is_context_lost(error)) throw;
      last_failure = error.what();
    }
  }
  if (!best.batch) throw Error(ErrorCode::unsupported, "no variant runs: " + last_failure);
  peers_.push_back(std::move(peer));
  contestants_.push_back(std::move(best));
}

// Against the truth that the candidates were last checked with; without one there is nothing to compare either.
void Session::check_peer(const LaunchFunction& variant) {
  if (!current_reference_) return;
  Launchable peer;
  peer.launch = [&variant](std::span<const CUdeviceptr> pointers, std::span<const ScalarValue>, CUdeviceptr,
                           CUstream stream) { variant(pointers, stream); };
  const std::variant<double, Failure> outcome = checker_->check(peer, kPeerTolerance, Checker::Cases::first);
  if (const auto* failure = std::get_if<Failure>(&outcome)) throw Error(ErrorCode::unsupported, failure->message);
}

void Session::touch(const Contestant& contestant) {
  if (contestant.candidate) {
    sink_.touching(*contestant.candidate);
  } else {
    sink_.touching_peer(contestant.peer);
  }
}

void Session::drop(Contestant& contestant, const Error& error) {
  contestant.active = false;
  contestant.samples.clear();
  contestant.batch.reset();
  if (contestant.candidate) {
    fail(*contestant.candidate, to_failure(error));
  } else {
    sink_.peer_failed(contestant.peer, error.what());
  }
}

// Every active contestant once; the new sample replaces that of an earlier try of the same round. Gives the lowest SM
// clock seen while a batch ran, 0 when unknown.
int Session::run_round(std::size_t round) {
  int clock = 0;
  for (Contestant& contestant : contestants_) {
    if (!contestant.active) continue;
    if (sink_.stop_requested()) break;
    touch(contestant);
    try {
      contestant.batch->start();
      // Asking takes about as long as a short batch, so a quick round asks until it has one answer.
      const auto sample = job_.quick && clock > 0 ? std::nullopt : cuda::nvml::sample(device_.info().uuid);
      if (sample) {
        clock = clock == 0 ? sample->sm_clock_mhz : std::min(clock, sample->sm_clock_mhz);
        throttle_reasons_ |= sample->throttle_reasons;
      }
      const double us = contestant.batch->finish();
      if (contestant.samples.size() <= round) {
        contestant.samples.push_back(us);
      } else {
        contestant.samples[round] = us;
      }
    } catch (const Error& error) {
      if (is_context_lost(error)) throw;
      drop(contestant, error);
    }
  }
  return clock;
}

void Session::screen(std::size_t round) {
  if (!job_.screen || round >= kScreen.size()) return;
  double best = std::numeric_limits<double>::infinity();
  for (const Contestant& contestant : contestants_) {
    if (contestant.candidate && !contestant.samples.empty()) {
      best = std::min(best, *std::min_element(contestant.samples.begin(), contestant.samples.end()));
    }
  }
  for (Contestant& contestant : contestants_) {
    if (!contestant.candidate || contestant.samples.empty()) continue;
    const double fastest = *std::min_element(contestant.samples.begin(), contestant.samples.end());
    if (fastest > kScreen[round] * best) contestant.active = false;
  }
}

void Session::time_rounds() {
  const auto rounds = static_cast<std::size_t>(std::max(1, job_.rounds));
  for (std::size_t round = 0; round < rounds && !sink_.stop_requested(); ++round) {
    clocks_mhz_.push_back(run_round(round));
    screen(round);
  }
  // Each dirty round gets one more try; a second bad one is kept and said.
  for (const std::size_t round : dirty_rounds(clocks_mhz_)) {
    if (sink_.stop_requested()) return;
    clocks_mhz_[round] = run_round(round);
  }
  if (const auto dirty = dirty_rounds(clocks_mhz_); !dirty.empty()) {
    sink_.warning(fmt::format("the SM clock fell in {} of {} rounds and again when they were repeated (throttling: {})",
                              dirty.size(), clocks_mhz_.size(), cuda::nvml::describe_throttle(throttle_reasons_)));
  }
}

void Session::report() {
  int clock = 0;
  if (std::vector<double> seen; !clocks_mhz_.empty()) {
    for (const int mhz : clocks_mhz_) {
      if (mhz > 0) seen.push_back(mhz);
    }
    clock = static_cast<int>(quantile(seen, 0.5));
  }
  for (Contestant& contestant : contestants_) {
    if (contestant.samples.empty()) continue;
    Timing timing = summarize(contestant.samples);
    timing.sm_clock_mhz = clock;
    if (!contestant.candidate) {
      sink_.peer_ended(contestant.peer, timing);
      continue;
    }
    // A race may show only after many launches, so what was timed must still be right. Of a first look only the best
    // matter, and they are measured again.
    if (!sink_.stop_requested() && !job_.quick) check(*contestant.candidate, Checker::Cases::first);
    if (!is_valid(*contestant.candidate)) continue;
    timing.error = entries_[*contestant.candidate].error;
    sink_.ended(*contestant.candidate, timing);
  }
}

}  // namespace

MeasuringDevice::MeasuringDevice(const std::string& uuid)
    : info_(find_device(uuid)), context_(info_.ordinal), current_(context_.get()), stream_(cuda::make_stream()) {}

void run_session(const MeasureJob& job, const MeasuringDevice& device, const TemplateSet& templates,
                 SessionSink& sink) {
  Session(job, device, templates, sink).run();
}

bool is_context_lost(const Error& error) noexcept {
  return !error.call().empty() && error.call().starts_with("cu") &&
         cuda::is_sticky(static_cast<CUresult>(error.native_code()));
}

}  // namespace kiln::tuner
