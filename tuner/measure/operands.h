// Device memory for a problem's operands: guarded buffers, in which a write outside an operand shows, and rotating
// sets, so that a timed launch finds nothing of its own in the L2. Memory of the current context. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include <cuda.h>

#include "cuda/memory.h"
#include "tuner/measure/check_kernels.h"
#include "tuner/measure/layout.h"

namespace kiln::tuner {

// `bytes` of device memory between two zones of a known pattern. The pointer is a multiple of `alignment` and of no
// higher power of two up to 256, so that a kernel which assumes more than it was promised is found out.
class GuardedBuffer {
 public:
  // Throws Error{out_of_memory}.
  GuardedBuffer(std::int64_t bytes, int alignment);

  CUdeviceptr get() const noexcept { return pointer_; }
  std::int64_t bytes() const noexcept { return bytes_; }
  // Writes the pattern; queued on `stream`.
  void arm(CUstream stream);
  // Waits for `stream`. False when a guard zone no longer holds the pattern.
  bool intact(CUstream stream) const;

 private:
  std::int64_t head_ = 0;
  std::int64_t bytes_ = 0;
  cuda::DeviceBuffer memory_;
  CUdeviceptr pointer_ = 0;
};

// `count` sets of operands in one allocation, every operand at a multiple of 256 bytes.
class OperandSets {
 public:
  // Throws Error{out_of_memory}.
  OperandSets(const std::vector<OperandLayout>& layouts, int count);

  int count() const noexcept { return static_cast<int>(pointers_.size()); }
  // One pointer for each operand; null for an empty one.
  const std::vector<CUdeviceptr>& pointers(int set) const { return pointers_.at(static_cast<std::size_t>(set)); }
  // Random values in every operand of every set, all different.
  void fill(CheckKernels& kernels, const std::vector<OperandLayout>& layouts, std::uint64_t seed) const;

 private:
  cuda::DeviceBuffer memory_;
  std::vector<std::vector<CUdeviceptr>> pointers_;
};

// Bytes that rotating sets may use now: half of the free memory, at most 32 GiB, so that a desktop stays usable.
std::int64_t memory_budget();

}  // namespace kiln::tuner
