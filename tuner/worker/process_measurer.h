// Measuring in a GPU worker process that may crash, hang or lose its context. The worker says what it touches; when it
// dies or is silent past the deadline it is ended, the candidate it touched last is blamed, and a new worker goes on
// with the others. A GPU that does not come back is sick and gets no more jobs. Not thread-safe: one call at a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/process.h"
#include "tuner/worker/measurer.h"
#include "tuner/worker/protocol.h"

namespace kiln::tuner {

struct WorkerOptions {
  std::filesystem::path helper;  // the executable that answers `arguments`
  std::vector<std::string> arguments{"gpu-worker"};
  std::string gpu_uuid;
  std::vector<std::filesystem::path> template_folders;
  std::chrono::milliseconds start_deadline{60'000};     // for a driver that initialises slowly
  std::chrono::milliseconds prepare_deadline{120'000};  // for operands and the reference kernel
  std::chrono::milliseconds grace{3'000};               // between asking a worker to end, SIGTERM and SIGKILL
};

class ProcessMeasurer : public Measurer {
 public:
  explicit ProcessMeasurer(WorkerOptions options);
  ~ProcessMeasurer() override;

  MeasureReport measure(const MeasureJob& job, MeasureSink& sink) override;
  void renew() override;

 private:
  struct Run;
  enum class Step { going_on, job_ended, worker_gone };

  void ensure_worker();
  void end_worker();
  [[noreturn]] void declare_sick(const std::string& why);
  std::string stderr_tail() const;
  Step handle(const protocol::Event& event, Run& run);
  Step wait_for_event(Run& run);
  void blame(Run& run, FailureKind kind, const std::string& message);
  void look_for_foreign_work(Run& run);

  WorkerOptions options_;
  std::unique_ptr<Process> worker_;
  std::filesystem::path log_file_;
  std::string sick_;  // why, once it is
};

}  // namespace kiln::tuner
