#include "tuner/measure/operands.h"

#include <algorithm>
#include <string>

#include "cuda/driver.h"
#include "kiln/error.h"

namespace kiln::tuner {
namespace {

constexpr std::int64_t kGuardBytes = 16 * 1024;
constexpr std::int64_t kFullAlignment = 256;
constexpr unsigned char kGuardPattern = 0x5a;

std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

GuardedBuffer::GuardedBuffer(std::int64_t bytes, int alignment)
    : head_(kGuardBytes + (alignment < kFullAlignment ? alignment : 0)),
      bytes_(bytes),
      memory_(static_cast<std::size_t>(head_ + bytes + kGuardBytes)),
      pointer_(memory_.get() + static_cast<CUdeviceptr>(head_)) {}

void GuardedBuffer::arm(CUstream stream) {
  const cuda::Driver& driver = cuda::driver();
  cuda::check(driver.cuMemsetD8Async(memory_.get(), kGuardPattern, static_cast<std::size_t>(head_), stream),
              "cuMemsetD8Async");
  const CUdeviceptr tail = pointer_ + static_cast<CUdeviceptr>(bytes_);
  cuda::check(driver.cuMemsetD8Async(tail, kGuardPattern, kGuardBytes, stream), "cuMemsetD8Async");
}

bool GuardedBuffer::intact(CUstream stream) const {
  const cuda::Driver& driver = cuda::driver();
  std::string zones(static_cast<std::size_t>(head_ + kGuardBytes), '\0');
  cuda::check(driver.cuMemcpyDtoHAsync(zones.data(), memory_.get(), static_cast<std::size_t>(head_), stream),
              "cuMemcpyDtoHAsync");
  cuda::check(
      driver.cuMemcpyDtoHAsync(zones.data() + head_, pointer_ + static_cast<CUdeviceptr>(bytes_), kGuardBytes, stream),
      "cuMemcpyDtoHAsync");
  cuda::check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
  return std::all_of(zones.begin(), zones.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) == kGuardPattern; });
}

OperandSets::OperandSets(const std::vector<OperandLayout>& layouts, int count) {
  std::int64_t stride = 0;
  for (const OperandLayout& layout : layouts) stride += round_up(layout.bytes, kFullAlignment);
  memory_ = cuda::DeviceBuffer(static_cast<std::size_t>(stride) * static_cast<std::size_t>(count));
  CUdeviceptr next = memory_.get();
  for (int set = 0; set < count; ++set) {
    std::vector<CUdeviceptr>& pointers = pointers_.emplace_back();
    for (const OperandLayout& layout : layouts) {
      pointers.push_back(layout.elements == 0 ? 0 : next);
      next += static_cast<CUdeviceptr>(round_up(layout.bytes, kFullAlignment));
    }
  }
}

void OperandSets::fill(CheckKernels& kernels, const std::vector<OperandLayout>& layouts, std::uint64_t seed) const {
  for (const std::vector<CUdeviceptr>& pointers : pointers_) {
    for (std::size_t i = 0; i < layouts.size(); ++i) kernels.fill(layouts[i], pointers[i], seed + layouts[i].seeded_by);
    seed += layouts.size();
  }
}

std::int64_t memory_budget() {
  constexpr std::int64_t kMost = std::int64_t{32} << 30;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cuda::check(cuda::driver().cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo");
  return std::min(kMost, static_cast<std::int64_t>(free_bytes / 2));
}

}  // namespace kiln::tuner
