// A device that exists only in tests: it takes as long as a function says, and fails where it is told to.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cache/gpu_profiles.h"
#include "runtime/memory_store.h"
#include "tuner/tuning.h"

namespace kiln::tuner {

// What befalls a candidate, by its description ("toy_unrolled BLOCK=64,UNROLL=1").
enum class Fault { none, crash, hang, wrong_result, out_of_memory };

class FakeMeasurer : public Measurer {
 public:
  std::function<double(const Candidate&)> time_us = [](const Candidate&) { return 10.0; };
  // Takes the place of time_us where it is set: the time may depend on the problem.
  std::function<double(const MeasureJob&, const Candidate&)> time_of_job;
  std::map<std::string, Fault> faults;
  std::map<std::string, int> only_first;  // a fault that passes after so many times
  std::map<std::string, double> peer_us;
  std::chrono::milliseconds takes{0};  // for each candidate
  bool foreign = false;
  std::function<void()> before_each;

  std::vector<std::string> measured;  // every candidate touched, in order
  std::vector<MeasureJob> jobs;       // without what was compiled
  int renewals = 0;

  MeasureReport measure(const MeasureJob& job, MeasureSink& sink) override {
    MeasureReport report;
    report.foreign_work = foreign;
    jobs.push_back(job);
    for (Candidate& candidate : jobs.back().candidates) candidate.code = {};
    if (foreign) sink.foreign_work();
    for (std::size_t i = 0; i < job.candidates.size(); ++i) {
      if (sink.stop_requested()) {
        report.stopped = true;
        return report;
      }
      if (before_each) before_each();
      std::this_thread::sleep_for(takes);
      sink.ended(i, outcome(job, job.candidates[i]));
    }
    for (const std::string& peer : job.peers) {
      if (peer_us.count(peer) != 0) report.peers[peer] = timing(peer_us[peer]);
    }
    return report;
  }

  void renew() override { ++renewals; }

 private:
  static Timing timing(double us) {
    return {.median_us = us,
            .min_us = us,
            .max_us = us,
            .spread = 0.001,
            .batches = 5,
            .error = 1e-7,
            .sm_clock_mhz = 1980};
  }

  double us_of(const MeasureJob& job, const Candidate& candidate) const {
    return time_of_job ? time_of_job(job, candidate) : time_us(candidate);
  }

  Outcome outcome(const MeasureJob& job, const Candidate& candidate) {
    const std::string name = describe(candidate.template_name, candidate.config);
    measured.push_back(name);
    const auto fault = faults.find(name);
    if (fault == faults.end()) return timing(us_of(job, candidate));
    if (const auto left = only_first.find(name); left != only_first.end() && left->second-- <= 0) {
      return timing(us_of(job, candidate));
    }
    switch (fault->second) {
      case Fault::crash:
        return Failure{FailureKind::crash, "CUDA_ERROR_ILLEGAL_ADDRESS", "worker log"};
      case Fault::hang:
        return Failure{FailureKind::timeout, "did not end within 15000 ms", "worker log"};
      case Fault::wrong_result:
        return Failure{FailureKind::wrong_result, "left 3 elements unwritten", ""};
      case Fault::out_of_memory:
        return Failure{FailureKind::out_of_memory, "cuMemAlloc", ""};
      case Fault::none:
        break;
    }
    return timing(us_of(job, candidate));
  }
};

// "Compiles" at once. A unit whose source holds a marked text fails, or spills.
class FakeCompiler : public Compiler {
 public:
  std::vector<std::string> refuses;  // texts in the source
  std::vector<std::string> spills;
  int compiles = 0;
  std::vector<std::string> sources;  // of every unit, in order
  std::function<void()> before_each;

  std::future<jit::CompileOutcome> submit(jit::CompileRequest request) override {
    ++compiles;
    sources.push_back(request.file_name + request.source + join(request.name_expressions, " "));
    if (before_each) before_each();
    std::promise<jit::CompileOutcome> promise;
    promise.set_value(compile(request));
    return promise.get_future();
  }

 private:
  static bool holds(const std::string& source, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      if (source.find(text) != std::string::npos) return true;
    }
    return false;
  }

  jit::CompileOutcome compile(const jit::CompileRequest& request) const {
    if (holds(request.source, refuses))
      return jit::CompileFailure{"error: expected a ';'", "unit.cu(1): error: expected a ';'"};
    jit::CompiledUnit unit;
    unit.cubin = "cubin of " + request.source;
    for (const std::string& name : request.name_expressions) {
      jit::KernelResources kernel;
      kernel.name_expression = name;
      kernel.symbol = "_Z" + name;
      kernel.registers = 40;
      if (holds(request.source, spills)) kernel.spill_store_bytes = 64;
      unit.kernels.push_back(kernel);
    }
    return unit;
  }
};

// Remembers what it is told.
class RecordingObserver : public TuneObserver {
 public:
  std::vector<std::pair<std::string, std::string>> trials;  // candidate, failure
  std::vector<std::string> warnings;
  std::function<bool()> stop = [] { return false; };

  void trial_ended(const std::string& candidate, double, const std::string& failure) override {
    trials.emplace_back(candidate, failure);
  }
  void warning(const std::string& message) override { warnings.push_back(message); }
  bool stop_requested() override { return stop(); }
};

// Everything a tuning run needs, with the toy templates of tests/templates/toy.
struct FictionalLab {
  TemplateSet templates{{std::filesystem::path(KILN_TEST_TEMPLATES) / "toy"}};
  MemoryStore store;
  FakeCompiler compiler;
  FakeMeasurer device;
  RecordingObserver observer;
  TuneOptions options;
  Versions versions{.driver = 13000, .nvrtc = "13.0", .kiln = "0.1.0"};
  std::vector<Decision> presets;
  cuda::DeviceInfo gpu = *cache::gpu_profile("h200");
  Problem problem{.op = "toy", .dims = {{"N", 1 << 20}}, .dtypes = {}, .choices = {}, .alignments = {}};

  std::string hardware_class() const { return cuda::hardware_class(gpu); }

  std::vector<TuneResult> run(const std::vector<Problem>& problems, bool predict = false) {
    const TuningParts parts{.templates = &templates,
                            .store = &store,
                            .compiler = &compiler,
                            .measurer = predict ? nullptr : &device,
                            .device = gpu,
                            .versions = versions,
                            .presets = presets};
    return run_tuning(parts, options, problems, observer);
  }
  TuneResult run() { return run({problem}).at(0); }

  std::optional<Decision> decision() {
    return store.find_decision(hardware_class(), complete(*templates.find_op("toy"), problem));
  }
  std::vector<Trial> trials() { return store.trials(hardware_class(), complete(*templates.find_op("toy"), problem)); }
  std::optional<FailureKind> failure_of(const std::string& candidate) {
    for (const Trial& trial : trials()) {
      if (describe(trial.template_name, trial.config) == candidate && trial.failure) return trial.failure->kind;
    }
    return std::nullopt;
  }
};

// Microseconds of a smooth fictional landscape with its best point at BLOCK=256, UNROLL=4.
inline double landscape_us(const Candidate& candidate) {
  if (candidate.template_name != "toy_unrolled") return 30;
  const double block = static_cast<double>(candidate.config.at("BLOCK") - 256) / 64;
  const double unroll = static_cast<double>(candidate.config.at("UNROLL") - 4);
  return 10 + 0.5 * block * block + 0.7 * unroll * unroll;
}

}  // namespace kiln::tuner
