// Random problems for a template, and the check of each against the reference on a real GPU. The seed is fixed, so a
// failure comes back; KILN_TEST_PROBLEMS sets how many problems there are (compute-sanitizer runs few),
// KILN_TEST_MAX_EXTENT how large they are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernel/template_set.h"
#include "runtime/memory_store.h"
#include "tuner/kernel_builder.h"
#include "tuner/measure/session.h"
#include "tuner/workshop.h"

namespace kiln::tuner {

// An integer of the environment.
int setting(const char* name, int fallback);

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // From 0 to n, both included.
  std::int64_t upto(std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n)(engine_); }
  bool one_in(int n) { return upto(n - 1) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values.at(static_cast<std::size_t>(upto(static_cast<std::int64_t>(values.size()) - 1)));
  }

 private:
  std::mt19937_64 engine_;
};

struct Case {
  Problem problem;
  Config config;
};

// Problems that `t` accepts, each with a legal configuration. A configuration is used for several problems of a kind
// (dtypes, choices, baked dims), so that there are more problems than compiles: at most `configs_per_kind` of each.
// A failure of the test when `draw` gives none that `t` accepts.
std::vector<Case> draw_cases(const KernelTemplate& t, const cuda::DeviceInfo& device, Random& random,
                             std::size_t configs_per_kind, const std::function<Problem()>& draw);

// Compiles kernels for one GPU, many at once; nothing is kept on disk.
class CaseBuilder {
 public:
  explicit CaseBuilder(const MeasuringDevice& device);
  KernelBuilder& builder() { return builder_; }
  // A failure of the test, and empty, when it does not compile.
  std::optional<KernelCode> build(const KernelTemplate& t, const Problem& problem, const Config& config);

 private:
  MemoryStore store_;
  PoolCompiler compiler_;
  KernelBuilder builder_;
};

// Every output of every case against the template's reference; prints the worst relative error.
void expect_what_the_reference_says(const TemplateSet& templates, const KernelTemplate& t,
                                    const MeasuringDevice& device, const std::vector<Case>& cases);

}  // namespace kiln::tuner
