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

#include <gtest/gtest.h>

#include "cuda/device.h"
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

// A parameter of tests that run for each template and dtype, and the name of its instance.
struct TemplateAndDType {
  const char* template_name;
  DType dtype;
};
inline std::string instance_name(const testing::TestParamInfo<TemplateAndDType>& test) {
  return std::string(test.param.template_name) + "_" + std::string(to_string(test.param.dtype));
}

// The body of such a test: problems that a Draw(template, dtype, random) makes with next(), against the reference.
template <class Draw>
void check_random_problems(const TemplateAndDType& param, std::uint64_t seed, std::size_t configs_per_kind) {
  const TemplateSet templates;
  const MeasuringDevice device(cuda::list_devices().at(0).uuid);
  const TemplatePtr t = templates.find(param.template_name);
  if (target_arch(*t, device.info()).empty()) GTEST_SKIP() << t->manifest.name << " does not run on this GPU";
  Random random(seed);
  Draw draw(*t, param.dtype, random);
  const auto cases = draw_cases(*t, device.info(), random, configs_per_kind, [&draw] { return draw.next(); });
  expect_what_the_reference_says(templates, *t, device, cases);
}

}  // namespace kiln::tuner
