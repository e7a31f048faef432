// Given configurations of one problem against each other and against other libraries: built, checked and timed in the
// same interleaved rounds. Not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernel/template_set.h"
#include "tuner/kernel_builder.h"
#include "tuner/worker/measurer.h"

namespace kiln::tuner {

struct Contender {
  TemplatePtr kernel_template;
  Config config;
};

struct ContestOptions {
  std::vector<std::string> peers;
  int rounds = 15;
  bool cold = true;
  bool screen = false;  // see MeasureJob
  std::uint64_t seed = 1;
  std::chrono::milliseconds candidate_deadline{15'000};
  std::function<bool()> stop;  // may be empty
};

struct Contest {
  std::vector<std::optional<Outcome>> outcomes;  // by contender; empty: the contest was stopped before
  MeasureReport report;
};

// What a contest is made with; all of it must outlive the call.
struct ContestParts {
  const TemplateSet* templates = nullptr;
  KernelBuilder* builder = nullptr;
  Measurer* measurer = nullptr;
  const cuda::DeviceInfo* device = nullptr;
};

// `problem` is complete. A contender that does not compile or run is an outcome. Throws as Measurer::measure does.
Contest compare(const ContestParts& parts, const Problem& problem, const std::vector<Contender>& contenders,
                const ContestOptions& options);

}  // namespace kiln::tuner
