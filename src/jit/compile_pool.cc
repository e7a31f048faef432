#include "jit/compile_pool.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "jit/compile_wire.h"
#include "kiln/error.h"

// One thread per process: it takes a request, speaks with its process, answers the promise. Nothing is shared between
// the threads but the queue.

namespace kiln::jit {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How often a waiting thread looks whether the pool is being destroyed.
constexpr milliseconds kStopCheck{50};
// A process whose channel has closed is about to end by itself.
constexpr milliseconds kEndPatience{2'000};
constexpr std::size_t kMemoryPerProcess = std::size_t{1} << 30;
const char* const kCancelled = "cancelled: the compile pool was destroyed";

// The first number of a file that holds "NAME: NUMBER" lines, or a lone number when `name` is empty.
std::optional<std::size_t> read_number(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(name, 0) != 0) continue;
    try {
      return std::stoull(line.substr(name.size()));
    } catch (const std::logic_error&) {  // "max": no limit
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// Bytes that new processes may use, or empty when the system does not say.
std::optional<std::size_t> free_memory() {
  const auto available = read_number("/proc/meminfo", "MemAvailable:");
  if (!available) return std::nullopt;
  const std::size_t bytes = *available * 1024;
  const auto limit = read_number("/sys/fs/cgroup/memory.max", "");
  return limit ? std::min(bytes, *limit) : bytes;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// Resident bytes of a process; 0 when it is gone.
std::size_t resident_bytes(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/statm");
  std::size_t total_pages = 0;
  std::size_t resident_pages = 0;
  in >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

struct Job {
  CompileRequest request;
  std::promise<CompileOutcome> promise;
};

// The queue all threads share.
class JobQueue {
 public:
  void push(Job job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    ready_.notify_one();
  }

  // Waits for a job; empty when the pool stops.
  std::optional<Job> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return std::nullopt;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
  }

  bool stopping() const {
    const std::lock_guard lock(mutex_);
    return stopping_;
  }

  // Ends every pop() and answers what is queued.
  void stop() {
    std::deque<Job> cancelled;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      cancelled.swap(jobs_);
    }
    ready_.notify_all();
    for (Job& job : cancelled) job.promise.set_value(CompileFailure{kCancelled, ""});
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
};

// One thread's process and how it is replaced.
class CompileWorker {
 public:
  CompileWorker(const CompilePoolOptions& options, const JobQueue& queue) : options_(options), queue_(queue) {}

  CompileOutcome run(const CompileRequest& request) {
    try {
      CompileOutcome outcome = exchange(to_json(request));
      recycle();
      return outcome;
    } catch (const std::exception& error) {
      process_.reset();
      return CompileFailure{error.what(), ""};
    }
  }

 private:
  CompileOutcome exchange(const Json& request) {
    // That a process died while it had nothing to do is not this request's fault, and may show only after the request
    // was sent: a fresh process may try once more.
    bool may_retry = process_ && process_->channel().send(request);
    if (!may_retry) send_to_fresh(request);
    Json answer;
    const auto deadline = Clock::now() + options_.deadline;
    while (true) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) {
        throw Error(ErrorCode::io,
                    "the compile took longer than " + std::to_string(options_.deadline.count()) + " ms and was ended");
      }
      switch (process_->channel().receive(&answer, std::min(left, kStopCheck))) {
        case Channel::Status::message:
          return outcome_from_json(answer);
        case Channel::Status::closed:
          if (!may_retry) throw Error(ErrorCode::io, end_of_process());
          may_retry = false;
          send_to_fresh(request);
          break;
        case Channel::Status::timeout:
          break;
      }
      if (queue_.stopping()) throw Error(ErrorCode::interrupted, kCancelled);
    }
  }

  void send_to_fresh(const Json& request) {
    process_.reset();
    start();
    if (!process_->channel().send(request)) throw Error(ErrorCode::io, end_of_process());
  }

  void start() {
    process_.emplace(Process::Options{
        .executable = options_.helper, .arguments = {"compile-worker"}, .environment = {}, .stderr_file = {}});
    jobs_done_ = 0;
  }

  // Says how a process ended whose channel is closed.
  std::string end_of_process() {
    const auto status = process_->wait(kEndPatience);
    return "the compile process (" + options_.helper.string() + " compile-worker) " +
           (status ? "ended with " + status->describe() : "closed its channel") + " before it answered";
  }

  void recycle() {
    ++jobs_done_;
    const std::size_t bytes = resident_bytes(process_->pid());
    if (jobs_done_ < options_.jobs_per_process && bytes <= options_.memory_limit_bytes) return;
    log("jit")->debug("compile process {} is replaced after {} jobs, at {} MiB", process_->pid(), jobs_done_,
                      bytes >> 20);
    process_.reset();
  }

  const CompilePoolOptions& options_;
  const JobQueue& queue_;
  std::optional<Process> process_;
  int jobs_done_ = 0;
};

}  // namespace

struct CompilePool::Impl {
  CompilePoolOptions options;
  JobQueue queue;
  std::vector<std::thread> threads;

  // Here, so that a constructor that cannot start all its threads ends those it started.
  ~Impl() {
    queue.stop();
    for (std::thread& thread : threads) thread.join();
  }

  void serve() {
    CompileWorker worker(options, queue);
    while (auto job = queue.pop()) job->promise.set_value(worker.run(job->request));
  }
};

CompilePool::CompilePool(CompilePoolOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  const int count = impl_->options.num_processes > 0 ? impl_->options.num_processes : default_compile_processes();
  for (int i = 0; i < count; ++i) impl_->threads.emplace_back([impl = impl_.get()] { impl->serve(); });
}

CompilePool::~CompilePool() = default;

std::future<CompileOutcome> CompilePool::submit(CompileRequest request) {
  Job job{.request = std::move(request), .promise = {}};
  auto future = job.promise.get_future();
  impl_->queue.push(std::move(job));
  return future;
}

int CompilePool::num_processes() const noexcept { return static_cast<int>(impl_->threads.size()); }

int default_compile_processes() {
  const int cores = usable_cores();
  const auto memory = free_memory();
  if (!memory) return std::max(1, cores);
  return static_cast<int>(std::clamp<std::size_t>(*memory / kMemoryPerProcess, 1, static_cast<std::size_t>(cores)));
}

int serve_compiles(int fd) {
  die_with_parent(fd);
  Channel channel(fd);
  Json message;
  while (channel.receive(&message, milliseconds(-1)) == Channel::Status::message) {
    CompileOutcome outcome;
    try {
      outcome = compile(request_from_json(message));
    } catch (const std::exception& error) {
      outcome = CompileFailure{error.what(), ""};
    }
    if (!channel.send(to_json(outcome))) break;
  }
  return 0;
}

}  // namespace kiln::jit
