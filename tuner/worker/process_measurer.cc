#include "tuner/worker/process_measurer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/log.h"
#include "cuda/nvml.h"
#include "kiln/error.h"

namespace kiln::tuner {
namespace {

using protocol::Event;
using Kind = Event::Kind;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How often a stop is looked for while the worker is silent.
constexpr milliseconds kPoll{100};
// How long a worker may take to hand in what it has when it is asked to stop.
constexpr milliseconds kStopGrace{1'000};
constexpr std::streamoff kLogTail = 16 * 1024;

std::filesystem::path make_log_file() {
  std::string path = (std::filesystem::temp_directory_path() / "kiln-worker-XXXXXX").string();
  const int fd = mkstemp(path.data());
  if (fd < 0) throw Error(ErrorCode::io, "cannot create " + path + " for a worker's messages");
  close(fd);
  return path;
}

// Empty when the message is no event about one of `num_candidates`: a worker whose memory a candidate has damaged may
// say anything.
std::optional<Event> read_event(const Json& message, std::size_t num_candidates) {
  if (protocol::type_of(message) != "event") return std::nullopt;
  try {
    Event event = protocol::event_from_json(message);
    const bool is_outcome = event.kind == Kind::checked || event.kind == Kind::peer_ended;
    if (is_outcome && !std::holds_alternative<Timing>(event.outcome)) return std::nullopt;
    const bool names_candidate =
        event.kind == Kind::touching || event.kind == Kind::checked || event.kind == Kind::ended;
    if (names_candidate && event.candidate >= num_candidates) return std::nullopt;
    return event;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

// What is known of one measure() call while workers come and go.
struct ProcessMeasurer::Run {
  const MeasureJob& job;
  MeasureSink& sink;
  MeasureReport report;
  std::vector<std::size_t> pending;            // indices into job.candidates, in order
  std::vector<std::optional<double>> checked;  // by candidate: found right in an earlier worker
  bool with_peers = true;
  int ownerless = 0;  // workers that ended with nobody to blame

  // Of the current worker.
  std::vector<std::size_t> sent = {};  // its candidate i is job.candidates[sent[i]]
  enum class Touch { preparation, candidate, peer } touch = Touch::preparation;
  std::size_t touched = 0;
  std::string touched_peer = {};
  std::string last_words = {};
  Clock::time_point deadline = {};
  bool stopping = false;

  void end(std::size_t candidate, const Outcome& outcome) {
    std::erase(pending, candidate);
    sink.ended(candidate, outcome);
  }

  MeasureJob remaining() {
    sent = pending;
    MeasureJob part = job;
    part.candidates.clear();
    for (const std::size_t index : sent) {
      part.candidates.push_back(job.candidates[index]);
      if (checked[index]) part.candidates.back().checked_error = checked[index];
    }
    if (!with_peers) part.peers.clear();
    return part;
  }
};

ProcessMeasurer::ProcessMeasurer(WorkerOptions options) : options_(std::move(options)), log_file_(make_log_file()) {}

ProcessMeasurer::~ProcessMeasurer() {
  if (worker_ && !worker_->stop(options_.grace)) {
    log("tuner")->error("the GPU worker {} does not end; GPU {} may need a reset", worker_->pid(), options_.gpu_uuid);
  }
  std::error_code ignored;
  std::filesystem::remove(log_file_, ignored);
}

void ProcessMeasurer::declare_sick(const std::string& why) {
  sick_ = "GPU " + options_.gpu_uuid + " is given no more work: " + why;
  throw Error(ErrorCode::launch_failed, sick_);
}

std::string ProcessMeasurer::stderr_tail() const {
  std::ifstream file(log_file_, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kLogTail));
  return {std::istreambuf_iterator<char>(file), {}};
}

void ProcessMeasurer::ensure_worker() {
  if (!sick_.empty()) throw Error(ErrorCode::launch_failed, sick_);
  if (worker_) return;
  worker_ = std::make_unique<Process>(Process::Options{
      .executable = options_.helper, .arguments = options_.arguments, .environment = {}, .stderr_file = log_file_});
  worker_->channel().send(
      protocol::to_json(protocol::Open{.gpu_uuid = options_.gpu_uuid, .template_folders = options_.template_folders}));
  Json message;
  const Channel::Status status = worker_->channel().receive(&message, options_.start_deadline);
  const std::optional<Event> event =
      status == Channel::Status::message ? read_event(message, 0) : std::optional<Event>();
  if (event) {
    if (event->kind == Kind::opened) return;
    end_worker();
    declare_sick("the worker cannot use it: " + event->text);
  }
  end_worker();
  declare_sick(status == Channel::Status::timeout
                   ? fmt::format("the worker did not start within {} ms", options_.start_deadline.count())
                   : "the worker ended before it answered: " + stderr_tail());
}

void ProcessMeasurer::end_worker() {
  if (!worker_) return;
  const bool ended = worker_->stop(options_.grace).has_value();
  const pid_t pid = worker_->pid();
  worker_.reset();
  if (!ended) declare_sick(fmt::format("its worker (process {}) cannot be ended", pid));
}

void ProcessMeasurer::renew() { end_worker(); }

// NVML may see process ids of another namespace, so ours is told from others' by counting. A worker that has just ended
// is listed for a moment longer, so only what stays is foreign.
void ProcessMeasurer::look_for_foreign_work(Run& run) {
  if (run.report.foreign_work) return;
  const std::size_t own = worker_ ? 1 : 0;
  constexpr int kLooks = 5;
  for (int look = 0; look < kLooks; ++look) {
    if (cuda::nvml::foreign_processes(options_.gpu_uuid).size() <= own) return;
    std::this_thread::sleep_for(milliseconds(200));
  }
  run.report.foreign_work = true;
  run.sink.foreign_work();
}

MeasureReport ProcessMeasurer::measure(const MeasureJob& job, MeasureSink& sink) {
  Run run{.job = job, .sink = sink, .report = {}, .pending = {}, .checked = {}, .with_peers = true};
  for (std::size_t i = 0; i < job.candidates.size(); ++i) run.pending.push_back(i);
  run.checked.resize(job.candidates.size());

  // Each turn ends the job, or blames a candidate or the peers, so there are only so many.
  Step step = Step::worker_gone;
  while (step != Step::job_ended && (!run.pending.empty() || (run.with_peers && !job.peers.empty()))) {
    look_for_foreign_work(run);
    ensure_worker();
    run.touch = Run::Touch::preparation;
    run.last_words.clear();
    run.deadline = Clock::now() + options_.prepare_deadline;
    worker_->channel().send(protocol::to_json(run.remaining()));
    do {
      step = wait_for_event(run);
    } while (step == Step::going_on);
    look_for_foreign_work(run);
    if (run.report.stopped) break;
  }
  return run.report;
}

ProcessMeasurer::Step ProcessMeasurer::wait_for_event(Run& run) {
  if (!run.stopping && run.sink.stop_requested()) {
    run.stopping = run.report.stopped = true;
    run.deadline = Clock::now() + kStopGrace;
    worker_->channel().send(protocol::stop_message());
  }
  Json message;
  const auto left = std::chrono::duration_cast<milliseconds>(run.deadline - Clock::now());
  switch (worker_->channel().receive(&message, std::clamp(left, milliseconds(0), kPoll))) {
    case Channel::Status::message:
      if (const std::optional<Event> event = read_event(message, run.sent.size())) return handle(*event, run);
      run.last_words = "the worker sent a message that cannot be read";
      break;
    case Channel::Status::timeout: {
      if (Clock::now() < run.deadline) return Step::going_on;
      end_worker();
      if (run.stopping) return Step::job_ended;
      const milliseconds limit =
          run.touch == Run::Touch::preparation ? options_.prepare_deadline : run.job.candidate_deadline;
      blame(run, FailureKind::timeout, fmt::format("did not end within {} ms", limit.count()));
      return Step::worker_gone;
    }
    case Channel::Status::closed:
      break;
  }
  const std::optional<ExitStatus> status = worker_->stop(options_.grace);
  const std::string exit = status ? status->describe() : "no exit status";
  end_worker();
  if (run.stopping) return Step::job_ended;
  blame(run, FailureKind::crash, run.last_words.empty() ? "the worker ended with " + exit : run.last_words);
  return Step::worker_gone;
}

ProcessMeasurer::Step ProcessMeasurer::handle(const Event& event, Run& run) {
  const auto arm = [&](milliseconds limit) {
    if (!run.stopping) run.deadline = Clock::now() + limit;
  };
  const auto candidate = [&] { return run.sent.at(event.candidate); };
  switch (event.kind) {
    case Kind::preparing:
      run.touch = Run::Touch::preparation;
      arm(options_.prepare_deadline);
      break;
    case Kind::touching:
      run.touch = Run::Touch::candidate;
      run.touched = candidate();
      arm(run.job.candidate_deadline);
      break;
    case Kind::touching_peer:
      run.touch = Run::Touch::peer;
      run.touched_peer = event.text;
      arm(options_.prepare_deadline);
      break;
    case Kind::checked:
      run.checked[candidate()] = std::get<Timing>(event.outcome).error;
      run.sink.checked(candidate(), std::get<Timing>(event.outcome).error);
      break;
    case Kind::ended:
      if (std::holds_alternative<Timing>(event.outcome)) look_for_foreign_work(run);
      run.end(candidate(), event.outcome);
      break;
    case Kind::peer_ended:
      run.report.peers[event.text] = std::get<Timing>(event.outcome);
      break;
    case Kind::peer_failed:
      run.report.peer_failures[event.text] = event.detail;
      break;
    case Kind::warning:
      run.report.warnings.push_back(event.text);
      break;
    case Kind::lost:
      run.last_words = event.text;
      break;
    case Kind::done:
      return Step::job_ended;
    case Kind::failed:
      throw Error(ErrorCode::launch_failed, "measuring " + run.job.problem.canonical() + ": " + event.text);
    case Kind::opened:
      break;
  }
  return Step::going_on;
}

void ProcessMeasurer::blame(Run& run, FailureKind kind, const std::string& message) {
  if (run.touch == Run::Touch::preparation) {
    throw Error(ErrorCode::launch_failed, "measuring " + run.job.problem.canonical() +
                                              ": operands or the reference kernel failed, with no candidate running: " +
                                              message + "\n" + stderr_tail());
  }
  if (run.touch == Run::Touch::peer) {
    run.with_peers = false;
    run.report.peer_failures[run.touched_peer] = message;
    return;
  }
  const Candidate& candidate = run.job.candidates[run.touched];
  log("tuner")->info("{} {}: {}", describe(candidate.template_name, candidate.config), to_string(kind), message);
  if (std::find(run.pending.begin(), run.pending.end(), run.touched) == run.pending.end()) {
    // It has its outcome already, and what went wrong after that has no owner: once can be chance.
    if (++run.ownerless > 1) declare_sick("workers die between candidates: " + message);
    return;
  }
  run.end(run.touched, Failure{.kind = kind, .message = message, .log = stderr_tail()});
}

}  // namespace kiln::tuner
