// Every GEMM template against the reference on random problems: odd sizes, layouts, epilogues, padded leading
// dimensions, batches, unaligned operands, alpha and beta. The seed is fixed, so a failure comes back;
// KILN_TEST_PROBLEMS sets how many problems each template gets for each dtype (default 200; compute-sanitizer runs
// few), KILN_TEST_MAX_EXTENT how large they are.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include <gmock/gmock.h>

#include "kernel/config_scope.h"
#include "kernel/space.h"
#include "tests/gpu/gpu_lab.h"
#include "tuner/measure/checker.h"
#include "tuner/measure/session.h"
#include "tuner/references.h"

namespace kiln::tuner {
namespace {

int setting(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

struct Case {
  Problem problem;
  Config config;
};

// What is compiled into a kernel: dtypes, layouts and the epilogue.
struct Kind {
  std::map<std::string, DType> dtypes;
  std::map<std::string, std::string> choices;
};

// Draws problems that `t` accepts and legal configurations for them. They are of few kinds, and a configuration is used
// for several problems, so that there are more problems than compiles.
class Draw {
 public:
  Draw(const KernelTemplate& t, DType dtype, const cuda::DeviceInfo& device, std::uint64_t seed)
      : t_(t), dtype_(dtype), device_(device), random_(seed), max_extent_(setting("KILN_TEST_MAX_EXTENT", 700)) {
    for (std::size_t i = 0; i < kPlainKinds + kFusedKinds; ++i) kinds_.push_back(draw_kind(i >= kPlainKinds));
  }

  std::optional<Case> next() {
    for (int attempt = 0; attempt < 200; ++attempt) {
      const Problem problem = draw_problem();
      if (!rejection(t_, problem, device_).empty()) continue;
      if (const auto config = draw_config(problem)) return Case{problem, *config};
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kConfigsPerKind = 4;
  static constexpr std::size_t kPlainKinds = 12;
  static constexpr std::size_t kFusedKinds = 24;

  std::int64_t upto(std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n)(random_); }
  bool one_in(int n) { return upto(n - 1) == 0; }

  std::int64_t extent() {
    if (one_in(8)) return 1 + upto(16);
    const std::int64_t value = 1 + upto(max_extent_ - 1);
    return one_in(2) ? (value + 7) / 8 * 8 : value;
  }

  template <class T>
  const T& any_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(upto(static_cast<std::int64_t>(values.size()) - 1))];
  }

  Kind draw_kind(bool fused) {
    static const std::vector<DType> outputs{bf16, f16, f32};
    Kind kind;
    kind.dtypes = {{"a", dtype_}};
    if (one_in(2)) kind.dtypes["d"] = any_of(outputs);
    kind.choices = {{"a_layout", one_in(2) ? "row" : "col"}, {"b_layout", one_in(2) ? "row" : "col"}};
    if (!fused) return kind;
    for (const ChoiceSpec& choice : t_.op->choices) {
      if (choice.omit_default) kind.choices[choice.name] = any_of(choice.values);
    }
    if (kind.choices["activation"] == "swiglu" && kind.choices["addend"] == "c") kind.choices["addend"] = "residual";
    const bool reads_c = kind.choices["addend"] != "d" || kind.choices["bias"] != "none";
    if (reads_c && one_in(3)) kind.dtypes["c"] = any_of(outputs);
    return kind;
  }

  Problem draw_problem() {
    const Kind& kind = any_of(kinds_);
    Problem problem;
    problem.op = "gemm";
    problem.dtypes = kind.dtypes;
    problem.choices = kind.choices;
    problem.dims = {
        {"M", extent()}, {"N", extent()}, {"K", one_in(40) ? 0 : extent()}, {"batch", one_in(3) ? 1 + upto(3) : 1}};
    if (const auto activation = kind.choices.find("activation");
        activation != kind.choices.end() && activation->second == "swiglu") {
      problem.dims["N"] *= 2;
    }
    problem = complete(*t_.op, problem);
    const bool aligned = !one_in(3);
    for (const char* dim : {"lda", "ldb", "ldc", "ldd"}) {
      if (problem.dims.count(dim) == 0) continue;
      std::int64_t& value = problem.dims.at(dim);
      if (one_in(2)) value += upto(24);
      if (aligned) value = (value + 7) / 8 * 8;
    }
    for (const char* dim : {"stride_a", "stride_b", "stride_c", "stride_d"}) problem.dims.erase(dim);
    problem = complete(*t_.op, problem);
    if (problem.dims.at("batch") > 1 && one_in(3)) problem.dims.at("stride_d") += 8 * upto(10);
    if (!aligned) {
      for (auto& [operand, alignment] : problem.alignments) {
        if (one_in(2)) alignment = size_of(problem.dtypes.at(t_.op->find_operand(operand)->dtype));
      }
    }
    return complete(*t_.op, problem);
  }

  std::optional<Config> draw_config(const Problem& problem) {
    std::string kind;
    for (const auto& [name, dtype] : problem.dtypes) kind += std::string(to_string(dtype)) + " ";
    for (const auto& [name, value] : problem.choices) kind += name + "=" + value + " ";
    std::vector<Config>& known = configs_[kind];
    std::vector<Config> legal;
    for (const Config& config : known) {
      if (illegal_reason(t_, problem, config, device_).empty()) legal.push_back(config);
    }
    if (known.size() >= kConfigsPerKind && !legal.empty()) {
      return legal[static_cast<std::size_t>(upto(static_cast<std::int64_t>(legal.size()) - 1))];
    }
    // One of all legal configurations, each as likely: the n-th seen replaces the choice with probability 1/n.
    std::optional<Config> chosen;
    std::int64_t seen = 0;
    ConfigScope bound(t_, problem, device_);
    for_each_config(bound, {}, [&](const Config& config) {
      if (upto(seen++) == 0) chosen = config;
    });
    if (!chosen && illegal_reason(t_, problem, t_.manifest.fallback, device_).empty()) chosen = t_.manifest.fallback;
    if (chosen) known.push_back(*chosen);
    return chosen;
  }

  const KernelTemplate& t_;
  const DType dtype_;
  const cuda::DeviceInfo& device_;
  std::mt19937_64 random_;
  const int max_extent_;
  std::vector<Kind> kinds_;
  std::map<std::string, std::vector<Config>> configs_;
};

struct TemplateAndDType {
  const char* template_name;
  DType dtype;
};

class TemplatesGpuTest : public GpuTest, public testing::WithParamInterface<TemplateAndDType> {};

TEST_P(TemplatesGpuTest, SmallRandomProblemsComeOutAsTheReferenceSays) {
  const TemplateSet templates;
  const MeasuringDevice device(cuda::list_devices().at(0).uuid);
  const TemplatePtr t = templates.find(GetParam().template_name);
  if (target_arch(*t, device.info()).empty()) GTEST_SKIP() << t->manifest.name << " does not run on this GPU";

  const int count = setting("KILN_TEST_PROBLEMS", 200);
  std::vector<Case> cases;
  Draw draw(*t, GetParam().dtype, device.info(), 20261201);
  for (int i = 0; i < count; ++i) {
    auto drawn = draw.next();
    ASSERT_TRUE(drawn) << "no problem drawn that " << t->manifest.name << " accepts";
    cases.push_back(std::move(*drawn));
  }

  MemoryStore store;
  PoolCompiler compiler(find_helper({}));
  KernelBuilder builder(compiler, store, current_versions().nvrtc, device.info());
  for (const Case& c : cases) builder.prefetch(*t, c.problem, c.config);
  const auto never = [] { return false; };
  double worst = 0;
  for (const Case& c : cases) {
    const std::string what = t->manifest.name + " " + to_text(c.config) + " on " + c.problem.canonical();
    const auto built = builder.get(*t, c.problem, c.config, never);
    ASSERT_TRUE(built && std::holds_alternative<BuiltKernel>(*built))
        << what << ": " << (built ? std::get<Failure>(*built).message + std::get<Failure>(*built).log : "");
    References references(templates, builder, device.info(), *t->op, c.problem);
    ASSERT_TRUE(references.prepare(*t, never));
    MeasureJob job;
    references.give_to(job);
    CheckKernels kernels(job.check_cubin, job.check_symbols, device.info().sm_count, device.stream());
    Checker checker(*t->op, c.problem, kernels, 7, device.stream());
    const TemplatePtr reference = templates.find(job.references.at(0).template_name);
    const Problem truth = reference_problem(*t->op, c.problem);
    checker.set_reference(LoadedKernel(*reference, reference->manifest.launches, truth, job.references[0].config,
                                       job.references[0].code, device.info(), device.handle()));
    const LoadedKernel kernel(*t, t->manifest.launches, c.problem, c.config, std::get<BuiltKernel>(*built).code,
                              device.info(), device.handle());
    const auto verdict =
        checker.check(launchable(kernel), tolerance(t->manifest, *t->op, c.problem), Checker::Cases::all);
    const auto* failure = std::get_if<Failure>(&verdict);
    EXPECT_EQ(failure, nullptr) << what << ": " << (failure ? failure->message : "");
    if (failure == nullptr) worst = std::max(worst, std::get<double>(verdict));
  }
  std::printf("%s, %s: %d problems, worst relative error %.2e\n", GetParam().template_name,
              std::string(to_string(GetParam().dtype)).c_str(), count, worst);
}

INSTANTIATE_TEST_SUITE_P(Gemm, TemplatesGpuTest,
                         testing::Values(TemplateAndDType{"simt_gemm", f32}, TemplateAndDType{"simt_gemm", tf32},
                                         TemplateAndDType{"simt_gemm", f16}, TemplateAndDType{"simt_gemm", bf16},
                                         TemplateAndDType{"sm80_gemm", tf32}, TemplateAndDType{"sm80_gemm", f16},
                                         TemplateAndDType{"sm80_gemm", bf16}, TemplateAndDType{"sm90_gemm", tf32},
                                         TemplateAndDType{"sm90_gemm", f16}, TemplateAndDType{"sm90_gemm", bf16}),
                         [](const auto& test) {
                           return std::string(test.param.template_name) + "_" +
                                  std::string(to_string(test.param.dtype));
                         });

}  // namespace
}  // namespace kiln::tuner
