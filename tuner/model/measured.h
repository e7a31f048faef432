// What the store knows of how a template's configurations really ran: the ground that cost models are judged and fitted
// on. Plain values; thread-safe as such.
#pragma once

#include <string>
#include <vector>

#include "kernel/template.h"
#include "runtime/store.h"

namespace kiln::tuner {

struct MeasuredConfig {
  Config config;
  double us = 0;
};

// One problem's measured configurations of one template, each once, in the order of their texts.
struct MeasuredProblem {
  Problem problem;
  std::vector<MeasuredConfig> configs;
};

// Which trials count: those of the template as it reads now, or of every earlier form whose configurations are still
// legal.
enum class TrialForms { current, any };

// Every problem with a measured trial of `t` on `device`'s hardware class, in the order of their canonical texts. A
// configuration measured several times counts by its newest trial. What is no problem of the op any more, or no legal
// configuration, is left out.
std::vector<MeasuredProblem> measured_problems(Store& store, const KernelTemplate& t, const cuda::DeviceInfo& device,
                                               TrialForms forms);

}  // namespace kiln::tuner
