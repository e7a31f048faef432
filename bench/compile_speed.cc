// How long NVRTC takes: one cold compile of a large Hopper tile in this process, and the throughput of the pool with
// one process and with one to each core. Needs NVRTC, not a GPU.
#include <benchmark/benchmark.h>

#include <chrono>
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

// What a batch did: jobs that compiled, and the time their processes spent on them.
struct BatchResult {
  std::size_t compiled = 0;
  double compile_ms = 0;
};

// Items per second over a batch; processes are started before the clock. Every number of processes has the same work
// for each of them, configurations spread over the space from cheap to dear, so that two numbers compare. `busy` is the
// share of the processes' time that went into compiling: what is missing from 1 went into the pool or into waiting for
// the last job. `compile_ms`, a job's mean, grows with the number of processes where cores share caches and units.
void PoolThroughput(benchmark::State& state) {
  constexpr std::size_t kJobsPerProcess = 16;
  const auto processes = static_cast<std::size_t>(state.range(0));
  const Subject subject;
  const std::vector<Config> space = enumerate(*subject.gemm, subject.problem, subject.device).configs;
  kiln::jit::CompilePool pool(
      {.helper = kiln::self_executable().parent_path() / "kiln", .num_processes = static_cast<int>(processes)});
  const auto run = [&](std::size_t jobs) {
    std::vector<std::future<CompileOutcome>> outcomes;
    for (std::size_t i = 0; i < jobs; ++i) {
      outcomes.push_back(pool.submit(subject.request(space[i % kJobsPerProcess * space.size() / kJobsPerProcess])));
    }
    BatchResult result;
    for (auto& future : outcomes) {
      const CompileOutcome outcome = future.get();
      const auto* unit = std::get_if<CompiledUnit>(&outcome);
      if (unit == nullptr) continue;
      ++result.compiled;
      result.compile_ms += unit->milliseconds;
    }
    return result;
  };
  run(processes);
  const std::size_t jobs = kJobsPerProcess * processes;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const BatchResult result = run(jobs);
    const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
    if (result.compiled != jobs) {
      state.SkipWithError("a configuration did not compile");
      return;
    }
    state.counters["busy"] = result.compile_ms / (wall.count() * static_cast<double>(processes));
    state.counters["compile_ms"] = result.compile_ms / static_cast<double>(jobs);
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
