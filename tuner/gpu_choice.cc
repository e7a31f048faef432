#include "tuner/gpu_choice.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "cache/gpu_profiles.h"
#include "cuda/driver.h"
#include "kiln/error.h"

namespace kiln::tuner {
namespace {

[[noreturn]] void refuse(const std::string& gpu, const std::vector<cuda::DeviceInfo>& here) {
  std::string devices;
  for (const cuda::DeviceInfo& device : here) {
    devices += fmt::format("{}{} ({}, {})", devices.empty() ? "" : ", ", device.ordinal, device.name, device.uuid);
  }
  throw Error(ErrorCode::no_device,
              fmt::format("{}; GPUs here: {}; profiles to predict for: {}",
                          gpu.empty() ? "there is no GPU here, so name a profile with --gpu" : "no GPU '" + gpu + "'",
                          devices.empty() ? "none" : devices, join(cache::gpu_profile_names(), ", ")));
}

std::optional<cuda::DeviceInfo> find_here(const std::string& gpu, const std::vector<cuda::DeviceInfo>& here) {
  const bool is_index = !gpu.empty() && gpu.size() < 4 &&
                        std::all_of(gpu.begin(), gpu.end(), [](char c) { return c >= '0' && c <= '9'; });
  const int index = is_index ? std::stoi(gpu) : 0;
  std::optional<cuda::DeviceInfo> found;
  for (const cuda::DeviceInfo& device : here) {
    if ((gpu.empty() || is_index) && device.ordinal == index) return device;
    if (!gpu.empty() && device.uuid == gpu) return device;
    // "GPU-" alone starts every UUID.
    if (gpu.size() > 4 && device.uuid.starts_with(gpu)) {
      if (found)
        throw Error(ErrorCode::no_device, "'" + gpu + "' is the start of several GPUs' UUIDs; give more of it");
      found = device;
    }
  }
  return found;
}

}  // namespace

GpuChoice choose_gpu(const std::string& gpu, const std::vector<cuda::DeviceInfo>& here) {
  if (const auto device = find_here(gpu, here)) return {.device = *device, .is_here = true};
  if (gpu.empty()) refuse(gpu, here);
  const std::optional<cuda::DeviceInfo> profile = cache::gpu_profile(gpu);
  if (!profile) refuse(gpu, here);
  for (const cuda::DeviceInfo& device : here) {
    if (cuda::hardware_class(device) == cuda::hardware_class(*profile)) return {.device = device, .is_here = true};
  }
  return {.device = *profile, .is_here = false};
}

GpuChoice choose_gpu(const std::string& gpu) {
  return choose_gpu(gpu, cuda::driver_available() ? cuda::list_devices() : std::vector<cuda::DeviceInfo>{});
}

}  // namespace kiln::tuner
