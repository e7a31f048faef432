// How long NVRTC takes: one cold compile of a large Hopper tile in this process, and the throughput of the pool with
// one process and with one to each core. Needs NVRTC, not a GPU.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "cache/gpu_profiles.h"
#include "jit/compile.h"
#include "jit/compile_pool.h"
#include "kernel/kernel_key.h"
#include "kernel/op_spec.h"
#include "kernel/space.h"
#include "kernel/template_set.h"

namespace {

using kiln::Config;
using kiln::jit::CompiledUnit;
using kiln::jit::CompileOutcome;
using kiln::jit::CompileRequest;

// The sm_90a GEMM on a 4096³ bf16 problem on an H200: what the requests below are about.
struct Subject {
  kiln::TemplateSet templates;
  kiln::TemplatePtr gemm = templates.find("sm90_gemm");
  kiln::cuda::DeviceInfo device = kiln::cache::gpu_profile("h200").value();
  kiln::Problem problem =
      kiln::problem_from_text(*gemm->op, kiln::parse_problem_text("gemm", "m=4096,n=4096,k=4096,dtype=bf16"));

  CompileRequest request(const Config& config) const { return compile_request(*gemm, problem, config, device); }

  // The configuration with these tile sizes that the cost model likes best.
  std::optional<Config> best_with_tile(std::int64_t bm, std::int64_t bn) const {
    std::optional<Config> best;
    double least = std::numeric_limits<double>::infinity();
    for (const Config& config : enumerate(*gemm, problem, device).configs) {
      if (config.at("BM") != bm || config.at("BN") != bn) continue;
      const double us = predicted_us(*gemm, problem, config, device);
      if (us >= least) continue;
      least = us;
      best = config;
    }
    return best;
  }
};

void ColdCompile128x256(benchmark::State& state) {
  const Subject subject;
  const std::optional<Config> config = subject.best_with_tile(128, 256);
  if (!config) {
    state.SkipWithError("no legal configuration has BM=128, BN=256");
    return;
  }
  const CompileRequest request = subject.request(*config);
  state.SetLabel(kiln::to_text(*config));
  for (auto _ : state) {
    const CompileOutcome outcome = kiln::jit::compile(request);
    if (!std::holds_alternative<CompiledUnit>(outcome)) {
      state.SkipWithError(std::get<kiln::jit::CompileFailure>(outcome).message.c_str());
      return;
    }
  }
}

// Items per second over a batch in which no two requests are alike; processes are started before the clock.
void PoolThroughput(benchmark::State& state) {
  constexpr std::size_t kJobsPerProcess = 8;
  const int processes = static_cast<int>(state.range(0));
  const Subject subject;
  const std::vector<Config> space = enumerate(*subject.gemm, subject.problem, subject.device).configs;
  const std::size_t jobs = std::min(space.size(), kJobsPerProcess * static_cast<std::size_t>(processes));
  kiln::jit::CompilePool pool({.helper = kiln::self_executable().parent_path() / "kiln", .num_processes = processes});
  // Spread over the space, so that cheap and dear configurations both come.
  const auto submit_all = [&](std::size_t count) {
    std::vector<std::future<CompileOutcome>> outcomes;
    for (std::size_t i = 0; i < count; ++i) {
      outcomes.push_back(pool.submit(subject.request(space[i * space.size() / count])));
    }
    std::size_t compiled = 0;
    for (auto& outcome : outcomes) compiled += std::holds_alternative<CompiledUnit>(outcome.get()) ? 1U : 0U;
    return compiled;
  };
  submit_all(static_cast<std::size_t>(processes));
  for (auto _ : state) {
    if (submit_all(jobs) != jobs) {
      state.SkipWithError("a configuration did not compile");
      return;
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(jobs * state.iterations()));
}

BENCHMARK(ColdCompile128x256)->Unit(benchmark::kMillisecond)->Iterations(5)->UseRealTime();
BENCHMARK(PoolThroughput)
    ->Arg(1)
    ->Arg(kiln::jit::default_compile_processes())
    ->Unit(benchmark::kSecond)
    ->Iterations(1)
    ->UseRealTime();

}  // namespace
