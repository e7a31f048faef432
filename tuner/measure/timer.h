// Device time of one launch, by the protocol: batches of at least 2 ms inside one CUDA graph, rotating over operand
// sets, between two events. Interleaving the batches of several contestants is session.h's part. Not thread-safe; works
// in the current context.
#pragma once

#include <functional>
#include <span>
#include <string>

#include <cuda.h>

#include "cuda/memory.h"
#include "tuner/measure/operands.h"

namespace kiln::tuner {

// Queues one operation on operands at `pointers`. Must be capturable into a graph once it has run.
using LaunchFunction = std::function<void(std::span<const CUdeviceptr> pointers, CUstream stream)>;

constexpr double kBatchUs = 2000;
// Of a first look at many candidates.
constexpr double kQuickBatchUs = 500;

// One contestant's batch, ready to be replayed.
class Batch {
 public:
  // Runs `launch` a few times to warm up and to see how many launches fill a batch, then captures that many: a multiple
  // of the number of sets, so that every set is equally long out of use when its turn comes.
  // Throws Error{launch_failed}; also for what only shows after repeats. `sets` and `stream` must outlive it.
  // A batch takes at least `batch_us` of device time where it can (kBatchUs by the protocol).
  Batch(const LaunchFunction& launch, const OperandSets& sets, CUstream stream, double batch_us);

  // Queues the batch; finish() waits for it and gives the microseconds of one launch.
  void start();
  double finish();

 private:
  void capture(const LaunchFunction& launch, const OperandSets& sets, int launches);

  CUstream stream_;
  int launches_ = 0;
  cuda::UniqueGraphExec graph_;
  cuda::UniqueEvent begin_;
  cuda::UniqueEvent end_;
};

}  // namespace kiln::tuner
