// A configuration made executable for one problem: grids, argument bytes and tensor maps, built once; a call copies the
// arguments, patches pointers and scalars, and launches. Immutable after build; run() is thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cuda.h>

#include "kernel/template.h"

namespace kiln {

// A pointer or scalar to be written into an argument at each call.
struct Patch {
  enum class Kind { pointer, map, workspace, map_workspace, scalar };
  Kind kind = Kind::pointer;
  int index = 0;             // operand, or scalar, in the op's order
  std::uint32_t offset = 0;  // into the launch's argument bytes
  std::uint64_t addend = 0;  // workspace: offset of this workspace in the whole
  int bytes = 8;             // scalar: its size
};

struct PlannedLaunch {
  std::size_t kernel_index = 0;  // among the template's launches
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned cluster[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  bool pdl = false;
  std::vector<std::byte> arguments;             // 128-byte aligned when copied for a call
  std::vector<std::uint32_t> argument_offsets;  // of each kernel parameter
  std::vector<Patch> patches;
};

struct ZeroRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct LaunchPlan {
  std::vector<PlannedLaunch> launches;  // those whose `when` holds
  std::uint64_t workspace_bytes = 0;
  std::vector<ZeroRange> zero;           // set to zero before each call
  std::vector<std::uint32_t> alignment;  // by operand: bytes its pointer must be a multiple of (tensor maps, promises)
  std::vector<bool> touched;             // by operand: false when its span is empty, so null is allowed
};

// Everything but the device: no CUDA call except encoding tensor maps when libcuda is there (`encode_maps`).
// Throws Error{invalid_argument} naming launch and argument when a value is out of range (a grid above the limit, a
// tensor map the hardware cannot express).
enum class EncodeMaps { no, yes };
LaunchPlan build_plan(const KernelTemplate& t, const std::vector<LaunchSpec>& launches, const Problem& problem,
                      const Config& config, const cuda::DeviceInfo& device, EncodeMaps encode);

// Opts every kernel in to what its launches need of `device`: dynamic shared memory, clusters of more than 8 blocks.
// `kernels` as for run(). Throws Error{launch_failed}.
void allow_resources(const LaunchPlan& plan, std::span<const CUkernel> kernels, CUdevice device);

// A scalar as it is written into the argument bytes.
union ScalarValue {
  float f32;
  std::int32_t i32;
  std::uint32_t u32;
  std::int64_t i64;
  std::uint64_t u64;
};

// Launches `plan` on `stream`. `kernels` are indexed by PlannedLaunch::kernel_index; `pointers` and `scalars` are in
// the op's order; `workspace` holds workspace_bytes (may be null when 0). Throws Error{launch_failed}.
void run(const LaunchPlan& plan, std::span<const CUkernel> kernels, std::span<const CUdeviceptr> pointers,
         std::span<const ScalarValue> scalars, CUdeviceptr workspace, CUstream stream);

}  // namespace kiln
