// A compiled configuration on this GPU: its library loaded, its launches laid out for one problem. Unloaded with its
// last owner, so that losers do not fill the device's memory. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <cuda.h>

#include "cuda/device.h"
#include "cuda/library.h"
#include "kernel/launch_plan.h"
#include "tuner/candidate.h"

namespace kiln::tuner {

class LoadedKernel {
 public:
  // `launches`: the manifest's own, or those of its check. Throws Error{launch_failed}, {not_found},
  // {invalid_argument}.
  LoadedKernel(const KernelTemplate& t, const std::vector<LaunchSpec>& launches, const Problem& problem,
               const Config& config, const KernelCode& code, const cuda::DeviceInfo& device, CUdevice cu_device);

  std::uint64_t workspace_bytes() const noexcept { return plan_.workspace_bytes; }
  bool deterministic() const noexcept { return deterministic_; }
  bool launches_nothing() const noexcept { return plan_.launches.empty(); }
  // Queues the operation. Throws Error{launch_failed}.
  void launch(std::span<const CUdeviceptr> pointers, std::span<const ScalarValue> scalars, CUdeviceptr workspace,
              CUstream stream) const;

 private:
  cuda::Library library_;
  std::vector<CUkernel> kernels_;
  LaunchPlan plan_;
  bool deterministic_;
};

}  // namespace kiln::tuner
