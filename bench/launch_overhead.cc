// Host cost of one call: raw cuLaunchKernelEx, a prepared GEMM, and an unprepared GEMM whose problem is known. All
// three launch the same kernel with the same arguments. Needs a GPU.
//
// A batch is launched without waiting, and the queue is emptied outside the clock: the time is the host's alone as long
// as the batch fits in the queue.
#include <benchmark/benchmark.h>
#include <cuda.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "cuda/memory.h"
#include "cuda/tensor_map.h"
#include "kernel/launch_plan.h"
#include "kernel/op_spec.h"
#include "kiln/kiln.h"
#include "runtime/prepared.h"

namespace {

constexpr int kBatch = 128;
constexpr std::int64_t kExtent = 128;  // small enough that the GPU keeps up with the host

const kiln::Gemm& problem() {
  static const kiln::Gemm gemm{.m = kExtent, .n = kExtent, .k = kExtent};
  return gemm;
}

// A device with operands, and a Runtime that has answered for the problem.
struct Bed {
  kiln::cuda::PrimaryContext primary{0};
  kiln::cuda::ContextScope current{primary.get()};
  kiln::cuda::DeviceBuffer a{kExtent * kExtent * 2};
  kiln::cuda::DeviceBuffer b{kExtent * kExtent * 2};
  kiln::cuda::DeviceBuffer d{kExtent * kExtent * 2};
  kiln::cuda::UniqueStream stream = kiln::cuda::make_stream();
  kiln::Runtime runtime;
  kiln::GemmOperation gemm = runtime.prepare(problem());

  void* pointer(const kiln::cuda::DeviceBuffer& buffer) const { return reinterpret_cast<void*>(buffer.get()); }
};

// One for all benchmarks, so that they differ in nothing but the call; set by main.
Bed* bed = nullptr;

// Reports the host's time for one of `kBatch` calls.
void measure(benchmark::State& state, const std::function<void()>& call) {
  const auto drain = [] {
    kiln::cuda::check(kiln::cuda::driver().cuStreamSynchronize(bed->stream.get()), "cuStreamSynchronize");
  };
  for (int i = 0; i < kBatch; ++i) call();
  drain();
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) call();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(elapsed.count() / kBatch);
    drain();
  }
}

// One launch with its arguments filled in for good: what a program would do by hand.
class RawLaunch {
 public:
  RawLaunch(const kiln::PlannedLaunch& launch, CUkernel kernel, const std::vector<CUdeviceptr>& pointers,
            CUstream stream)
      : kernel_(kernel) {
    std::memcpy(arguments_.data(), launch.arguments.data(), launch.arguments.size());
    for (const kiln::Patch& patch : launch.patches) fill(patch, pointers);
    for (std::size_t i = 0; i < launch.argument_offsets.size(); ++i) {
      parameters_[i] = arguments_.data() + launch.argument_offsets[i];
    }
    config_.gridDimX = launch.grid[0];
    config_.gridDimY = launch.grid[1];
    config_.gridDimZ = launch.grid[2];
    config_.blockDimX = launch.block[0];
    config_.blockDimY = launch.block[1];
    config_.blockDimZ = launch.block[2];
    config_.sharedMemBytes = launch.shared_bytes;
    config_.hStream = stream;
    config_.attrs = &cluster_;
    if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 1) {
      cluster_.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      cluster_.value.clusterDim.x = launch.cluster[0];
      cluster_.value.clusterDim.y = launch.cluster[1];
      cluster_.value.clusterDim.z = launch.cluster[2];
      config_.numAttrs = 1;
    }
  }
  RawLaunch(const RawLaunch&) = delete;
  RawLaunch& operator=(const RawLaunch&) = delete;

  void operator()() {
    kiln::cuda::check(kiln::cuda::driver().cuLaunchKernelEx(&config_, reinterpret_cast<CUfunction>(kernel_),
                                                            parameters_.data(), nullptr),
                      "cuLaunchKernelEx");
  }

 private:
  void fill(const kiln::Patch& patch, const std::vector<CUdeviceptr>& pointers) {
    std::byte* const target = arguments_.data() + patch.offset;
    const CUdeviceptr address =
        patch.kind == kiln::Patch::Kind::scalar ? 0 : pointers.at(static_cast<std::size_t>(patch.index));
    // alpha is 1 and beta 0: the first and second scalar of the op.
    const float scalar = patch.index == 0 ? 1.0F : 0.0F;
    if (patch.kind == kiln::Patch::Kind::pointer) std::memcpy(target, &address, sizeof(address));
    if (patch.kind == kiln::Patch::Kind::map)
      kiln::cuda::replace_address(reinterpret_cast<CUtensorMap*>(target), address);
    if (patch.kind == kiln::Patch::Kind::scalar) std::memcpy(target, &scalar, sizeof(scalar));
  }

  alignas(128) std::array<std::byte, 4096> arguments_{};
  std::array<void*, 64> parameters_{};
  CUkernel kernel_;
  CUlaunchConfig config_{};
  CUlaunchAttribute cluster_{};
};

void RawDriverLaunch(benchmark::State& state) {
  const kiln::RuntimeOptions options = kiln::options_from_environment();
  kiln::RuntimeCore core(options, 0, true);
  const std::shared_ptr<const kiln::OpSpec> op = core.templates.find_op("gemm");
  const kiln::PreparedPtr prepared = prepare_problem(core, complete(*op, kiln::to_problem(problem())), "");
  if (prepared->plan.launches.size() != 1 || prepared->plan.workspace_bytes != 0) {
    state.SkipWithError("the chosen configuration is more than one plain launch");
    return;
  }
  const kiln::PlannedLaunch& launch = prepared->plan.launches.front();
  // In the order of the op's operands; those that this problem lacks are null.
  const std::map<std::string, CUdeviceptr> given{{"a", bed->a.get()}, {"b", bed->b.get()}, {"d", bed->d.get()}};
  std::vector<CUdeviceptr> pointers;
  for (const kiln::OperandSpec& operand : op->operands) {
    const auto found = given.find(operand.name);
    pointers.push_back(found == given.end() ? 0 : found->second);
  }
  RawLaunch raw(launch, prepared->kernels->kernels[launch.kernel_index], pointers, bed->stream.get());
  measure(state, [&raw] { raw(); });
}

void PreparedCall(benchmark::State& state) {
  measure(state,
          [] { bed->gemm(bed->stream.get(), bed->pointer(bed->a), bed->pointer(bed->b), bed->pointer(bed->d)); });
}

void UnpreparedCall(benchmark::State& state) {
  measure(state, [] {
    bed->runtime.gemm(bed->stream.get(), problem(), bed->pointer(bed->a), bed->pointer(bed->b), bed->pointer(bed->d));
  });
}

// The median over rounds is the figure to read; --benchmark_enable_random_interleaving=true takes them in turn.
constexpr int kRounds = 10;
constexpr int kBatchesPerRound = 100;
void set_up(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Repetitions(kRounds)->Iterations(kBatchesPerRound)->ReportAggregatesOnly();
}
BENCHMARK(RawDriverLaunch)->Apply(set_up);
BENCHMARK(PreparedCall)->Apply(set_up);
BENCHMARK(UnpreparedCall)->Apply(set_up);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    Bed one;
    bed = &one;
    benchmark::RunSpecifiedBenchmarks();
  } catch (const kiln::Error& error) {
    std::fprintf(stderr, "launch_overhead: %s\n", error.what());
    return 1;
  }
  benchmark::Shutdown();
  return 0;
}
