#include "tests/gpu/random_cases.h"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "kernel/config_scope.h"
#include "kernel/space.h"
#include "tuner/measure/checker.h"
#include "tuner/references.h"

namespace kiln::tuner {
namespace {

const auto kNever = [] { return false; };

std::string kind_of(const KernelTemplate& t, const Problem& problem) {
  std::string kind;
  for (const auto& [name, dtype] : problem.dtypes) kind += std::string(to_string(dtype)) + " ";
  for (const auto& [name, value] : problem.choices) kind += name + "=" + value + " ";
  for (const std::string& dim : t.manifest.bake) kind += std::to_string(problem.dims.at(dim)) + " ";
  return kind;
}

class ConfigDraw {
 public:
  ConfigDraw(const KernelTemplate& t, const cuda::DeviceInfo& device, Random& random, std::size_t per_kind)
      : t_(t), device_(device), random_(random), per_kind_(per_kind) {}

  std::optional<Config> next(const Problem& problem) {
    std::vector<Config>& known = known_[kind_of(t_, problem)];
    std::vector<Config> legal;
    for (const Config& config : known) {
      if (illegal_reason(t_, problem, config, device_).empty()) legal.push_back(config);
    }
    if (known.size() >= per_kind_ && !legal.empty()) return random_.pick(legal);
    // One of all legal configurations, each as likely: the n-th seen replaces the choice with probability 1/n.
    std::optional<Config> chosen;
    std::int64_t seen = 0;
    ConfigScope bound(t_, problem, device_);
    for_each_config(bound, {}, [&](const Config& config) {
      if (random_.upto(seen++) == 0) chosen = config;
    });
    if (!chosen && illegal_reason(t_, problem, t_.manifest.fallback, device_).empty()) chosen = t_.manifest.fallback;
    if (chosen) known.push_back(*chosen);
    return chosen;
  }

 private:
  const KernelTemplate& t_;
  const cuda::DeviceInfo& device_;
  Random& random_;
  std::size_t per_kind_;
  std::map<std::string, std::vector<Config>> known_;
};

}  // namespace

int setting(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

std::vector<Case> draw_cases(const KernelTemplate& t, const cuda::DeviceInfo& device, Random& random,
                             std::size_t configs_per_kind, const std::function<Problem()>& draw) {
  constexpr int kMostAttempts = 200;
  const auto count = static_cast<std::size_t>(setting("KILN_TEST_PROBLEMS", 200));
  ConfigDraw configs(t, device, random, configs_per_kind);
  std::vector<Case> cases;
  for (int attempt = 0; cases.size() < count && attempt < kMostAttempts; ++attempt) {
    const Problem problem = draw();
    if (!rejection(t, problem, device).empty()) continue;
    const auto config = configs.next(problem);
    if (!config) continue;
    cases.push_back({problem, *config});
    attempt = 0;
  }
  EXPECT_EQ(cases.size(), count) << "too few problems drawn that " << t.manifest.name << " accepts";
  return cases;
}

CaseBuilder::CaseBuilder(const MeasuringDevice& device)
    : compiler_(find_helper({})), builder_(compiler_, store_, current_versions().nvrtc, device.info()) {}

std::optional<KernelCode> CaseBuilder::build(const KernelTemplate& t, const Problem& problem, const Config& config) {
  const auto built = builder_.get(t, problem, config, kNever);
  if (built && std::holds_alternative<BuiltKernel>(*built)) return std::get<BuiltKernel>(*built).code;
  ADD_FAILURE() << t.manifest.name << " " << to_text(config) << " on " << problem.canonical() << ": "
                << (built ? std::get<Failure>(*built).message + std::get<Failure>(*built).log : "");
  return std::nullopt;
}

void expect_what_the_reference_says(const TemplateSet& templates, const KernelTemplate& t,
                                    const MeasuringDevice& device, const std::vector<Case>& cases) {
  CaseBuilder builds(device);
  for (const Case& c : cases) builds.builder().prefetch(t, c.problem, c.config);
  double worst = 0;
  for (const Case& c : cases) {
    const std::string what = t.manifest.name + " " + to_text(c.config) + " on " + c.problem.canonical();
    const auto code = builds.build(t, c.problem, c.config);
    ASSERT_TRUE(code);
    References references(templates, builds.builder(), device.info(), *t.op, c.problem);
    ASSERT_TRUE(references.prepare(t, kNever));
    MeasureJob job;
    references.give_to(job);
    CheckKernels kernels(job.check_cubin, job.check_symbols, device.info().sm_count, device.stream());
    Checker checker(*t.op, c.problem, kernels, 7, device.stream());
    const TemplatePtr reference = templates.find(job.references.at(0).template_name);
    const Problem truth = reference_problem(*t.op, c.problem);
    checker.set_reference(LoadedKernel(*reference, reference->manifest.launches, truth, job.references[0].config,
                                       job.references[0].code, device.info(), device.handle()));
    const LoadedKernel kernel(t, t.manifest.launches, c.problem, c.config, *code, device.info(), device.handle());
    const auto verdict =
        checker.check(launchable(kernel), tolerance(t.manifest, *t.op, c.problem), Checker::Cases::all);
    const auto* failure = std::get_if<Failure>(&verdict);
    EXPECT_EQ(failure, nullptr) << what << ": " << (failure ? failure->message : "");
    if (failure == nullptr) worst = std::max(worst, std::get<double>(verdict));
  }
  std::printf("%s: %zu problems, worst relative error %.2e\n", t.manifest.name.c_str(), cases.size(), worst);
}

}  // namespace kiln::tuner
