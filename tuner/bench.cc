#include "tuner/bench.h"

#include <algorithm>

#include "base/text.h"
#include "cache/gpu_profiles.h"
#include "kernel/template_set.h"
#include "kiln/error.h"
#include "runtime/lookup.h"
#include "tuner/contest.h"
#include "tuner/gpu_choice.h"
#include "tuner/measure/peers.h"
#include "tuner/worker/gpu_lock.h"
#include "tuner/workshop.h"

namespace kiln {
namespace {

constexpr int kFewestRounds = 5;

cuda::DeviceInfo choose_device(const std::string& gpu) {
  const tuner::GpuChoice choice = tuner::choose_gpu(gpu);
  if (!choice.is_here) throw Error(ErrorCode::no_device, "a benchmark needs the GPU itself; " + gpu + " is not here");
  return choice.device;
}

std::vector<cuda::DeviceInfo> all_profiles() {
  std::vector<cuda::DeviceInfo> profiles;
  for (const std::string& name : cache::gpu_profile_names()) {
    if (const auto profile = cache::gpu_profile(name)) profiles.push_back(*profile);
  }
  return profiles;
}

}  // namespace

std::vector<std::string> bench_peers(const std::string& op) { return tuner::peer_names(op); }

struct Bench::Impl {
  BenchOptions options;
  TemplateSet templates;
  cuda::DeviceInfo device;
  Versions versions;
  std::unique_ptr<Store> store;
  tuner::PoolCompiler compiler;
  tuner::KernelBuilder builder;
  tuner::GpuLock lock;
  tuner::ProcessMeasurer measurer;

  Impl(const RuntimeOptions& runtime, BenchOptions bench)
      : options(std::move(bench)),
        templates(runtime.template_folders, runtime.include_folders),
        device(choose_device(options.gpu)),
        versions(tuner::current_versions()),
        store(open_store(tuner::store_options(runtime))),
        compiler(tuner::find_helper(options.helper)),
        builder(compiler, *store, versions.nvrtc, device),
        lock(device.uuid, {.limit = std::chrono::minutes(10)}),
        measurer(worker_options(runtime)) {
    options.rounds = std::max(options.rounds, kFewestRounds);
    check_peers();
  }

  tuner::WorkerOptions worker_options(const RuntimeOptions& runtime) const {
    tuner::WorkerOptions worker;
    worker.helper = tuner::find_helper(options.helper);
    worker.gpu_uuid = device.uuid;
    worker.template_folders = runtime.template_folders;
    return worker;
  }

  // A misspelt peer would otherwise just be missing from every row.
  void check_peers() const {
    std::vector<std::string> known;
    for (const std::string& op : templates.op_names()) {
      for (const std::string& name : tuner::peer_names(op)) known.push_back(name);
    }
    for (const std::string& peer : options.peers) {
      if (std::find(known.begin(), known.end(), peer) != known.end()) continue;
      throw Error(ErrorCode::invalid_argument,
                  "unknown peer '" + peer + "'" + did_you_mean(peer, known) + "; known: " + join(known, ", "));
    }
  }

  BenchRow measure(const Problem& wanted);
};

BenchRow Bench::Impl::measure(const Problem& wanted) {
  const std::shared_ptr<const OpSpec> op = templates.find_op(wanted.op);
  BenchRow row;
  row.problem = complete(*op, wanted);
  const Lookup lookup({.templates = &templates,
                       .store = store.get(),
                       .presets = shipped_presets,
                       .profiles = all_profiles(),
                       .device = device,
                       .versions = versions});
  const Answer answer = lookup.find(row.problem, options.only_template);
  const KernelTemplate& t = *answer.kernel_template;
  row.provenance = {.rung = answer.rung,
                    .template_name = t.manifest.name,
                    .config = answer.config,
                    .source = answer.source,
                    .expected_us = answer.expected_us,
                    .stale = answer.stale};
  row.template_digest = t.digest.hex();

  tuner::ContestOptions compare_with;
  const std::vector<std::string> known = tuner::peer_names(row.problem.op);
  for (const std::string& peer : options.peers) {
    if (std::find(known.begin(), known.end(), peer) != known.end()) compare_with.peers.push_back(peer);
  }
  compare_with.rounds = options.rounds;
  compare_with.cold = options.cold;
  compare_with.seed = options.seed;
  const tuner::ContestParts parts{
      .templates = &templates, .builder = &builder, .measurer = &measurer, .device = &device};
  auto [outcomes, report] = tuner::compare(parts, row.problem, {{answer.kernel_template, answer.config}}, compare_with);
  if (outcomes[0]) {
    if (const auto* timing = std::get_if<Timing>(&*outcomes[0])) row.kiln = *timing;
    if (const auto* failure = std::get_if<Failure>(&*outcomes[0])) row.failure = *failure;
  }
  row.peers = std::move(report.peers);
  row.peer_failures = std::move(report.peer_failures);
  row.warnings = std::move(report.warnings);
  row.foreign_work = report.foreign_work;
  return row;
}

Bench::Bench(const RuntimeOptions& runtime_options, BenchOptions options)
    : impl_(std::make_unique<Impl>(runtime_options, std::move(options))) {}

Bench::~Bench() = default;

BenchRow Bench::bench_problem(const Problem& problem) { return impl_->measure(problem); }

const cuda::DeviceInfo& Bench::device() const { return impl_->device; }

const Versions& Bench::versions() const { return impl_->versions; }

}  // namespace kiln
