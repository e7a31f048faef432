#include "tuner/cli/device_choice.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "cache/gpu_profiles.h"
#include "kiln/error.h"

namespace kiln::cli {
namespace {

std::string profile_advice() {
  return "name a GPU that Kiln knows with --gpu (" + join(cache::gpu_profile_names(), ", ") + ") to work without one";
}

std::optional<int> parse_index(const std::string& text) {
  int index = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, index);
  if (error != std::errc{} || rest != end || index < 0) return std::nullopt;
  return index;
}

std::vector<cuda::DeviceInfo> devices_here() {
  try {
    return cuda::list_devices();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_driver) throw;
    throw Error(ErrorCode::no_driver, std::string(error.what()) + "; " + profile_advice());
  }
}

bool is_named(const cuda::DeviceInfo& device, const std::string& gpu) {
  if (const std::optional<int> index = parse_index(gpu)) return device.ordinal == *index;
  return device.uuid == gpu;
}

struct Target {
  int cc = 0;  // 10·major + minor
};
// "sm_90", "sm_90a", "sm_100f".
std::optional<Target> parse_target(const std::string& arch) {
  if (!arch.starts_with("sm_")) return std::nullopt;
  Target target;
  const char* const begin = arch.data() + 3;
  const char* const end = arch.data() + arch.size();
  const auto [rest, error] = std::from_chars(begin, end, target.cc);
  const std::string suffix(rest, end);
  if (error != std::errc{} || target.cc < 10 || (!suffix.empty() && suffix != "a" && suffix != "f"))
    return std::nullopt;
  return target;
}

// Bytes of shared memory that one block may opt in to (CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability").
int opt_in_shared_bytes(int cc) {
  switch (cc) {
    case 70:
      return 96 * 1024;
    case 75:
      return 64 * 1024;
    case 80:
    case 87:
      return 163 * 1024;
    case 86:
    case 88:
    case 89:
      return 99 * 1024;
    default:
      return cc >= 120 ? 99 * 1024 : cc >= 90 ? 227 * 1024 : 48 * 1024;
  }
}

int threads_per_sm(int cc) {
  if (cc == 75) return 1024;
  return cc == 86 || cc == 88 || cc == 89 || cc >= 120 ? 1536 : 2048;
}

}  // namespace

DeviceChoice choose_device(const std::string& gpu) {
  if (!gpu.empty()) {
    if (const std::optional<cuda::DeviceInfo> profile = cache::gpu_profile(gpu)) {
      return {.device = *profile, .present = false};
    }
    // A misspelt profile should not be answered by complaints about the driver.
    if (!parse_index(gpu) && !gpu.starts_with("GPU-") && !gpu.starts_with("MIG-")) {
      throw Error(ErrorCode::no_device, "--gpu: '" + gpu + "' is not an index, a UUID (GPU-…) or one of the profiles " +
                                            join(cache::gpu_profile_names(), ", "));
    }
  }
  const std::vector<cuda::DeviceInfo> devices = devices_here();
  if (devices.empty()) throw Error(ErrorCode::no_device, "the driver shows no GPU; " + profile_advice());
  if (gpu.empty()) return {.device = devices.front(), .present = true};

  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const auto& device) { return is_named(device, gpu); });
  if (found != devices.end()) return {.device = *found, .present = true};
  std::vector<std::string> names;
  for (const auto& device : devices)
    names.push_back(std::to_string(device.ordinal) + " " + device.uuid + " " + device.name);
  throw Error(ErrorCode::no_device, "--gpu: there is no GPU '" + gpu + "'; this machine has " + join(names, ", ") +
                                        ", and the profiles are " + join(cache::gpu_profile_names(), ", "));
}

cuda::DeviceInfo device_for_arch(const std::string& arch) {
  const std::optional<Target> target = parse_target(arch);
  if (!target) {
    throw Error(ErrorCode::invalid_argument, "'" + arch + "' is not a target; write sm_90a, sm_86, …");
  }
  for (const std::string& name : cache::gpu_profile_names()) {
    const std::optional<cuda::DeviceInfo> profile = cache::gpu_profile(name);
    if (profile && profile->cc() == target->cc) return *profile;
  }
  cuda::DeviceInfo device;
  device.name = "any " + arch;
  device.cc_major = target->cc / 10;
  device.cc_minor = target->cc % 10;
  device.sm_count = 64;
  device.memory_bytes = std::int64_t{16} << 30;
  device.l2_bytes = std::int64_t{16} << 20;
  device.smem_per_block = opt_in_shared_bytes(target->cc);
  device.smem_per_sm = device.smem_per_block + 1024;
  device.regs_per_sm = 65536;
  device.threads_per_sm = threads_per_sm(target->cc);
  device.memory_clock_mhz = 7000;
  device.bus_width_bits = 256;
  device.clock_mhz = 1700;
  return device;
}

DeviceChoice choose_device_or_arch(const std::string& gpu, const std::string& arch) {
  if (arch.empty()) return choose_device(gpu);
  if (!gpu.empty()) {
    throw Error(ErrorCode::invalid_argument, "--gpu and --arch both name the device; give one of them");
  }
  return {.device = device_for_arch(arch), .present = false};
}

}  // namespace kiln::cli
