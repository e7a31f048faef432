// What the orchestrator asks of a measuring device: check and time candidates, and say how each ended. Implemented over
// a GPU worker process (process_measurer.h) and, in tests, by a fictional device.
// Not thread-safe: one call at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tuner/candidate.h"

namespace kiln::tuner {

// Told of each candidate as it ends, from the thread that called measure().
class MeasureSink {
 public:
  virtual ~MeasureSink() = default;
  // Another process computes on the GPU: timings from here to the end of the job are not to be kept.
  virtual void foreign_work() {}
  // The candidate's result is right; `error` is its relative Frobenius error, the worst over the checks.
  virtual void checked(std::size_t /*candidate*/, double /*error*/) {}
  // Once for each candidate, unless the run is stopped before it has a timing.
  virtual void ended(std::size_t candidate, const Outcome& outcome) = 0;
  // Asked often: true ends the measurement, keeping what is known.
  virtual bool stop_requested() { return false; }
};

struct MeasureReport {
  std::map<std::string, Timing> peers;               // those that could be timed
  std::map<std::string, std::string> peer_failures;  // why the others could not
  std::vector<std::string> warnings;                 // dirty rounds, less memory than wanted, …
  bool foreign_work = false;  // another process computed on the GPU meanwhile; no peer's timing holds
  bool stopped = false;
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  // A candidate that crashes, hangs or answers wrongly is an outcome. Throws Error{launch_failed} when the device
  // itself no longer serves, Error{io} when no worker can be started, Error{no_device}.
  virtual MeasureReport measure(const MeasureJob& job, MeasureSink& sink) = 0;
  // The next measure() starts in a fresh process.
  virtual void renew() = 0;
};

}  // namespace kiln::tuner
