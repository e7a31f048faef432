// Every template compiles at the corners of its space, for every architecture it claims, without spills and without
// serialised wgmma. Needs NVRTC, no GPU.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "cache/gpu_profiles.h"
#include "jit/compile_pool.h"
#include "jit/nvrtc.h"
#include "kernel/kernel_key.h"
#include "kernel/space.h"
#include "kernel/template_set.h"

namespace kiln {
namespace {

// One device of each architecture: those with a profile, and what stands for the others.
std::vector<cuda::DeviceInfo> devices() {
  std::map<int, cuda::DeviceInfo> by_cc;
  for (const cuda::DeviceInfo& profile : cache::gpu_profiles()) by_cc.emplace(profile.cc(), profile);
  cuda::DeviceInfo turing = by_cc.at(80);
  turing.cc_major = 7;
  turing.cc_minor = 5;
  turing.smem_per_sm = turing.smem_per_block = 65536;
  by_cc.emplace(75, turing);
  std::vector<cuda::DeviceInfo> result;
  const auto& known = jit::Nvrtc::instance().supported_archs();
  for (const auto& [cc, device] : by_cc) {
    if (std::find(known.begin(), known.end(), cc) != known.end()) result.push_back(device);
  }
  return result;
}

// For each parameter the legal configurations with its least and its greatest value: the first and the last of each in
// the order of the space, so that other parameters are at their ends too.
std::vector<Config> corners(const KernelTemplate& t, const std::vector<Config>& space) {
  std::set<Config> chosen{space.front(), space.back()};
  for (const ParamSpec& param : t.manifest.params) {
    const auto less = [&param](const Config& a, const Config& b) { return a.at(param.name) < b.at(param.name); };
    chosen.insert(*std::min_element(space.begin(), space.end(), less));
    chosen.insert(*std::max_element(space.begin(), space.end(), less));
    chosen.insert(*std::max_element(space.rbegin(), space.rend(), less));
  }
  return {chosen.begin(), chosen.end()};
}

struct Compile {
  std::string what;
  std::future<jit::CompileOutcome> outcome;
};

std::string fault(const jit::CompileOutcome& outcome) {
  if (const auto* failure = std::get_if<jit::CompileFailure>(&outcome)) return failure->message + "\n" + failure->log;
  const auto& unit = std::get<jit::CompiledUnit>(outcome);
  std::string text;
  for (const jit::KernelResources& kernel : unit.kernels) {
    if (kernel.spill_store_bytes + kernel.spill_load_bytes > 0) {
      text += kernel.name_expression + " spills " + std::to_string(kernel.spill_store_bytes) + " bytes; ";
    }
  }
  // The advisories that mean a wgmma or setmaxnreg did not come out as written.
  for (const std::string& warning : unit.warnings) {
    for (const char* code : {"C7504", "C7508", "C7510", "C7511", "C7515", "C7519", "C7520"}) {
      if (warning.find(code) != std::string::npos) text += warning + "; ";
    }
  }
  return text;
}

struct TemplateProblems {
  const char* template_name;
  std::vector<const char*> problems;  // whose corners are compiled, shared out among them
  std::vector<const char*> variants;  // of which one corner each is enough, on few architectures
};

class CornerConfigs : public testing::TestWithParam<TemplateProblems> {};

TEST_P(CornerConfigs, CompileWithoutSpillsForEveryArchitecture) {
  const TemplateSet templates;
  const TemplatePtr t = templates.find(GetParam().template_name);
  jit::CompilePool pool({.helper = KILN_COMPILE_HELPER});
  std::vector<Compile> compiles;
  std::set<std::string> seen;
  // A template of one architecture has fewer corners to share out.
  const std::size_t of_each = t->manifest.arch.front().ends_with('+') ? 4 : 1;
  std::size_t turn = 0;
  const auto problem_of = [&t](const char* text) {
    return problem_from_text(*t->op, parse_problem_text(t->op->name, text));
  };
  const auto add = [&](const Problem& problem, const cuda::DeviceInfo& device, const Config& config) {
    if (!seen.insert(kernel_key(*t, problem, config, device, "any").digest()).second) return;
    compiles.push_back(
        {t->manifest.name + " " + to_text(config) + " " + problem.canonical() + " for " + target_arch(*t, device),
         pool.submit(compile_request(*t, problem, config, device))});
  };
  for (const cuda::DeviceInfo& device : devices()) {
    if (target_arch(*t, device).empty()) continue;
    const std::size_t before = compiles.size();
    for (const char* text : GetParam().problems) {
      const Problem problem = problem_of(text);
      if (!rejection(*t, problem, device).empty()) continue;
      const Space space = enumerate(*t, problem, device);
      ASSERT_FALSE(space.configs.empty());
      std::vector<Config> configs = corners(*t, space.configs);
      // Each problem gets its share of the corners, the default always.
      std::vector<Config> share{t->manifest.fallback};
      for (const Config& config : configs) {
        if (++turn % of_each == 0) share.push_back(config);
      }
      for (const Config& config : share) add(problem, device, config);
    }
    EXPECT_GT(compiles.size(), before) << "nothing compiled for cc " << device.cc();
    if (device.cc() != 80 && device.cc() != 90) continue;  // a variant is the same everywhere
    for (const char* text : GetParam().variants) {
      const Problem problem = problem_of(text);
      ASSERT_EQ(rejection(*t, problem, device), "");
      // A different corner for each; a template of one architecture gets another.
      const std::vector<Config> configs = corners(*t, enumerate(*t, problem, device).configs);
      for (std::size_t i = 0; i < (of_each == 1 ? 2 : 1); ++i)
        add(problem, device, configs[++turn * 5 % configs.size()]);
    }
  }
  EXPECT_GT(compiles.size(), 20U);
  for (Compile& compile : compiles) {
    const std::string problem = fault(compile.outcome.get());
    EXPECT_EQ(problem, "") << compile.what;
  }
}

const std::vector<const char*> kGemms{
    "m=4096,n=4096,k=4096,dtype=bf16,a_layout=row,b_layout=col",
    "m=4096,n=4096,k=4096,dtype=bf16,a_layout=col,b_layout=row",
    "m=4096,n=4096,k=4096,dtype=f16,a_layout=row,b_layout=col",
    "m=4096,n=4096,k=4096,dtype=f16,a_layout=col,b_layout=row",
    "m=4096,n=4096,k=4096,dtype=tf32,a_layout=row,b_layout=col",
    "m=4096,n=4096,k=4096,dtype=tf32,a_layout=col,b_layout=row",
    "m=4096,n=4096,k=4096,dtype=f32,a_layout=row,b_layout=col",
    "m=4096,n=4096,k=4096,dtype=f32,a_layout=col,b_layout=row",
};
// Each value of each choice of an epilogue at least once.
const std::vector<const char*> kEpilogues{
    "m=4096,n=4096,k=4096,dtype=bf16,bias=n,activation=gelu",
    "m=4096,n=4096,k=4096,dtype=bf16,bias=m,activation=gelu_tanh,addend=c",
    "m=4096,n=4096,k=4096,dtype=bf16,activation=silu,addend=residual",
    "m=4096,n=4096,k=4096,dtype=bf16,bias=n,activation=swiglu,addend=residual",
    "m=4096,n=4096,k=4096,dtype=bf16,bias=n,activation=relu",
    "m=4096,n=4096,k=4096,dtype=bf16,activation=swiglu",
    "m=4096,n=4096,k=4096,dtype=bf16,addend=residual",
};
const std::vector<const char*> kAttentions{
    "h=16,s_q=4096,d=128,dtype=bf16,mask=causal",
    "h=16,s_q=4096,d=64,dtype=f16",
    "h=16,s_q=4096,d=256,dtype=bf16,mask=causal,lse=stored",
    "h=16,s_q=4096,d=192,d_v=128,dtype=f16,mask=causal",
    "h=16,s_q=4096,d=96,dtype=bf16,o=f32,mask=window,w=512",
    "h=16,s_q=4096,d=128,dtype=f16,mask=window,w=512,softcap=tanh,lse=stored",
};
const std::vector<const char*> kUnalignedAttentions{
    "h=16,s_q=4096,d=64,dtype=bf16,q_row=1025,mask=causal",
    "h=16,s_q=4096,d=90,d_v=250,dtype=f16,softcap=tanh",
    "h=16,s_q=4096,d=100,dtype=bf16,mask=window,w=512",
    "b=8,h=16,s_q=4096,d=128,dtype=bf16,mask=causal,lse=stored,lengths=cumulative",
    "b=8,h=16,s_q=4096,d=90,d_v=250,dtype=f16,softcap=tanh,lengths=cumulative",
    "b=8,h=16,s_q=4096,d=100,dtype=bf16,mask=window,w=512,lengths=cumulative",
};
const std::vector<const char*> kCumulativeAttentions{
    "b=8,h=16,s_q=4096,d=128,dtype=bf16,mask=causal,lse=stored,lengths=cumulative",
    "b=8,h=16,s_q=4096,d=128,dtype=f16,lengths=cumulative",
    "b=8,h=16,s_q=4096,d=64,dtype=f16,mask=window,w=512,lse=stored,lengths=cumulative",
    "b=8,h=16,s_q=4096,d=256,dtype=bf16,mask=causal,softcap=tanh,lse=stored,lengths=cumulative",
    "b=8,h=16,s_q=4096,d=192,d_v=128,dtype=bf16,o=f32,mask=window,w=512,lengths=cumulative",
};

INSTANTIATE_TEST_SUITE_P(Templates, CornerConfigs,
                         testing::Values(TemplateProblems{"simt_gemm", kGemms, kEpilogues},
                                         TemplateProblems{"sm80_gemm", kGemms, kEpilogues},
                                         TemplateProblems{"sm90_gemm", kGemms, kEpilogues},
                                         TemplateProblems{"sm80_attention", kAttentions, kUnalignedAttentions},
                                         TemplateProblems{"sm90_attention", kAttentions, kCumulativeAttentions}),
                         [](const auto& test) { return std::string(test.param.template_name); });

}  // namespace
}  // namespace kiln
