#include "tuner/measure/timer.h"

#include <algorithm>
#include <cmath>

#include "cuda/driver.h"
#include "kiln/error.h"

namespace kiln::tuner {
namespace {

constexpr int kMostLaunches = 16384;

struct GraphTraits {
  using Handle = CUgraph;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle graph) noexcept { cuda::driver().cuGraphDestroy(graph); }
};

// Launches that fill a batch when one takes `us`, in whole turns over the sets.
int launches_for(double us, int sets, double batch_us) {
  const double wanted = std::clamp(std::ceil(batch_us / std::max(us, 0.1)), 1.0, static_cast<double>(kMostLaunches));
  const int turns = (static_cast<int>(wanted) + sets - 1) / sets;
  return std::max(1, turns) * sets;
}

}  // namespace

Batch::Batch(const LaunchFunction& launch, const OperandSets& sets, CUstream stream, double batch_us)
    : stream_(stream), begin_(cuda::make_event()), end_(cuda::make_event()) {
  const cuda::Driver& driver = cuda::driver();
  // The first launch may load code lazily, which a capture forbids.
  launch(sets.pointers(0), stream_);
  cuda::check(driver.cuStreamSynchronize(stream_), "cuStreamSynchronize");
  cuda::check(driver.cuEventRecord(begin_.get(), stream_), "cuEventRecord");
  launch(sets.pointers(sets.count() - 1), stream_);
  cuda::check(driver.cuEventRecord(end_.get(), stream_), "cuEventRecord");
  cuda::check(driver.cuEventSynchronize(end_.get()), "cuEventSynchronize");
  const double single_us = cuda::elapsed_ms(begin_, end_) * 1000.0;

  // A single launch also shows host overhead, so the batch that it suggests may be short: see, and capture again.
  capture(launch, sets, launches_for(single_us, sets.count(), batch_us));
  start();
  const double us = finish();
  const int better = launches_for(us, sets.count(), batch_us);
  if (better > launches_ + launches_ / 8) {
    capture(launch, sets, better);
    start();
    finish();
  }
}

void Batch::capture(const LaunchFunction& launch, const OperandSets& sets, int launches) {
  const cuda::Driver& driver = cuda::driver();
  CUgraph captured = nullptr;
  cuda::check(driver.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
  try {
    for (int i = 0; i < launches; ++i) launch(sets.pointers(i % sets.count()), stream_);
  } catch (...) {
    // The stream must leave capture mode before anyone else can use it.
    driver.cuStreamEndCapture(stream_, &captured);
    const UniqueHandle<GraphTraits> discard(captured);
    throw;
  }
  cuda::check(driver.cuStreamEndCapture(stream_, &captured), "cuStreamEndCapture");
  const UniqueHandle<GraphTraits> graph(captured);
  CUgraphExec executable = nullptr;
  cuda::check(driver.cuGraphInstantiateWithFlags(&executable, graph.get(), 0), "cuGraphInstantiateWithFlags");
  graph_.reset(executable);
  launches_ = launches;
}

void Batch::start() {
  const cuda::Driver& driver = cuda::driver();
  cuda::check(driver.cuEventRecord(begin_.get(), stream_), "cuEventRecord");
  cuda::check(driver.cuGraphLaunch(graph_.get(), stream_), "cuGraphLaunch");
  cuda::check(driver.cuEventRecord(end_.get(), stream_), "cuEventRecord");
}

double Batch::finish() {
  cuda::check(cuda::driver().cuEventSynchronize(end_.get()), "cuEventSynchronize");
  return cuda::elapsed_ms(begin_, end_) * 1000.0 / launches_;
}

}  // namespace kiln::tuner
