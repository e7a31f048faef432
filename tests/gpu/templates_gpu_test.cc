// Every GEMM template against the reference on random problems: odd sizes, layouts, epilogues, padded leading
// dimensions, batches, unaligned operands, alpha and beta.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/gpu/gpu_lab.h"
#include "tests/gpu/random_cases.h"

namespace kiln::tuner {
namespace {

// What is compiled into a kernel: dtypes, layouts and the epilogue.
struct Kind {
  std::map<std::string, DType> dtypes;
  std::map<std::string, std::string> choices;
};

// They are of few kinds, so that there are more problems than compiles.
class ProblemDraw {
 public:
  ProblemDraw(const KernelTemplate& t, DType dtype, Random& random)
      : t_(t), dtype_(dtype), random_(random), max_extent_(setting("KILN_TEST_MAX_EXTENT", 700)) {
    for (std::size_t i = 0; i < kPlainKinds + kFusedKinds; ++i) kinds_.push_back(draw_kind(i >= kPlainKinds));
  }

  Problem next() {
    const Kind& kind = random_.pick(kinds_);
    Problem problem;
    problem.op = "gemm";
    problem.dtypes = kind.dtypes;
    problem.choices = kind.choices;
    problem.dims = {{"M", extent()},
                    {"N", extent()},
                    {"K", random_.one_in(40) ? 0 : extent()},
                    {"batch", random_.one_in(3) ? 1 + random_.upto(3) : 1}};
    if (const auto activation = kind.choices.find("activation");
        activation != kind.choices.end() && activation->second == "swiglu") {
      problem.dims["N"] *= 2;
    }
    problem = complete(*t_.op, problem);
    const bool aligned = !random_.one_in(3);
    for (const char* dim : {"lda", "ldb", "ldc", "ldd"}) {
      if (problem.dims.count(dim) == 0) continue;
      std::int64_t& value = problem.dims.at(dim);
      if (random_.one_in(2)) value += random_.upto(24);
      if (aligned) value = (value + 7) / 8 * 8;
    }
    for (const char* dim : {"stride_a", "stride_b", "stride_c", "stride_d"}) problem.dims.erase(dim);
    problem = complete(*t_.op, problem);
    if (problem.dims.at("batch") > 1 && random_.one_in(3)) problem.dims.at("stride_d") += 8 * random_.upto(10);
    if (!aligned) {
      for (auto& [operand, alignment] : problem.alignments) {
        if (random_.one_in(2)) alignment = size_of(problem.dtypes.at(t_.op->find_operand(operand)->dtype));
      }
    }
    return complete(*t_.op, problem);
  }

 private:
  static constexpr std::size_t kPlainKinds = 12;
  static constexpr std::size_t kFusedKinds = 24;

  std::int64_t extent() {
    if (random_.one_in(8)) return 1 + random_.upto(16);
    const std::int64_t value = 1 + random_.upto(max_extent_ - 1);
    return random_.one_in(2) ? (value + 7) / 8 * 8 : value;
  }

  Kind draw_kind(bool fused) {
    static const std::vector<DType> outputs{bf16, f16, f32};
    Kind kind;
    kind.dtypes = {{"a", dtype_}};
    if (random_.one_in(2)) kind.dtypes["d"] = random_.pick(outputs);
    kind.choices = {{"a_layout", random_.one_in(2) ? "row" : "col"}, {"b_layout", random_.one_in(2) ? "row" : "col"}};
    if (!fused) return kind;
    for (const ChoiceSpec& choice : t_.op->choices) {
      if (choice.omit_default) kind.choices[choice.name] = random_.pick(choice.values);
    }
    if (kind.choices["activation"] == "swiglu" && kind.choices["addend"] == "c") kind.choices["addend"] = "residual";
    const bool reads_c = kind.choices["addend"] != "d" || kind.choices["bias"] != "none";
    if (reads_c && random_.one_in(3)) kind.dtypes["c"] = random_.pick(outputs);
    return kind;
  }

  const KernelTemplate& t_;
  const DType dtype_;
  Random& random_;
  const int max_extent_;
  std::vector<Kind> kinds_;
};

class TemplatesGpuTest : public GpuTest, public testing::WithParamInterface<TemplateAndDType> {};

TEST_P(TemplatesGpuTest, SmallRandomProblemsComeOutAsTheReferenceSays) {
  check_random_problems<ProblemDraw>(GetParam(), 20261201, 4);
}

INSTANTIATE_TEST_SUITE_P(Gemm, TemplatesGpuTest,
                         testing::Values(TemplateAndDType{"simt_gemm", f32}, TemplateAndDType{"simt_gemm", tf32},
                                         TemplateAndDType{"simt_gemm", f16}, TemplateAndDType{"simt_gemm", bf16},
                                         TemplateAndDType{"sm80_gemm", tf32}, TemplateAndDType{"sm80_gemm", f16},
                                         TemplateAndDType{"sm80_gemm", bf16}, TemplateAndDType{"sm90_gemm", tf32},
                                         TemplateAndDType{"sm90_gemm", f16}, TemplateAndDType{"sm90_gemm", bf16}),
                         instance_name);

}  // namespace
}  // namespace kiln::tuner
