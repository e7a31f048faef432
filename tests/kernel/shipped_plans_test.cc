// Legal configurations of the shipped templates lay out launches that the hardware takes: their tensor maps above all,
// which are otherwise seen only on a GPU.
#include <gtest/gtest.h>

#include "cache/gpu_profiles.h"
#include "kernel/launch_plan.h"
#include "kernel/space.h"
#include "kernel/template_set.h"
#include "kiln/error.h"

namespace kiln {
namespace {

struct TemplateProblem {
  const char* template_name;
  const char* problem;
};

class ShippedPlans : public testing::TestWithParam<TemplateProblem> {};

TEST_P(ShippedPlans, AreLaidOutAllOverTheSpace) {
  const TemplateSet templates;
  const cuda::DeviceInfo device = *cache::gpu_profile("h200");
  const TemplatePtr t = templates.find(GetParam().template_name);
  const Problem problem = problem_from_text(*t->op, parse_problem_text(t->op->name, GetParam().problem));
  ASSERT_EQ(rejection(*t, problem, device), "");
  const Space space = enumerate(*t, problem, device);
  ASSERT_FALSE(space.configs.empty());
  // Some hundreds of a large space; an odd step falls into few parameters' periods.
  const std::size_t step = space.configs.size() / 300 | 1;
  for (std::size_t i = 0; i < space.configs.size(); i += step) {
    try {
      build_plan(*t, t->manifest.launches, problem, space.configs[i], device, EncodeMaps::no);
    } catch (const Error& error) {
      FAIL() << to_text(space.configs[i]) << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Templates, ShippedPlans,
    testing::Values(TemplateProblem{"sm90_gemm", "m=4096,n=4096,k=4096,dtype=bf16"},
                    TemplateProblem{"sm90_gemm", "m=4096,n=4096,k=4096,dtype=bf16,a_layout=col,b_layout=row"},
                    TemplateProblem{"sm90_gemm", "m=4000,n=2112,k=4104,dtype=f16,d=f32"},
                    TemplateProblem{"sm90_gemm", "m=16,n=8192,k=8192,dtype=bf16"},
                    TemplateProblem{"sm90_gemm", "m=1,n=136,k=72,dtype=bf16"},
                    TemplateProblem{"sm90_gemm", "m=300,n=520,k=1000,batch=3,dtype=tf32,d=f32"},
                    TemplateProblem{"sm90_gemm", "m=4096,n=4096,k=4096,dtype=bf16,bias=n,activation=swiglu"},
                    TemplateProblem{"sm90_attention", "b=4,h=16,s_q=4096,d=128,dtype=bf16,mask=causal"},
                    TemplateProblem{"sm90_attention", "b=3,h=8,h_kv=2,s_q=77,s_k=1000,d=72,d_v=200,dtype=f16,o=f32"},
                    TemplateProblem{"sm90_attention", "b=8,h=16,s_q=4096,d=64,dtype=bf16,lengths=cumulative"},
                    TemplateProblem{"sm80_gemm", "m=4096,n=4096,k=4096,dtype=bf16"},
                    TemplateProblem{"sm80_attention", "b=4,h=16,s_q=4096,d=128,dtype=bf16,mask=causal"},
                    TemplateProblem{"simt_gemm", "m=4096,n=4096,k=4096,dtype=f32"}),
    [](const auto& test) { return std::string(test.param.template_name) + "_" + std::to_string(test.index); });

}  // namespace
}  // namespace kiln
