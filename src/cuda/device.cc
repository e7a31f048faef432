#include "cuda/device.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "cuda/driver.h"
#include "cuda/nvml.h"

namespace kiln::cuda {
namespace {

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

std::string format_uuid(const CUuuid& uuid, const char* prefix) {
  std::string text = prefix;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
  }
  return text;
}

// The driver says that a device is a MIG instance only in its name: "NVIDIA H200 MIG 1g.18gb".
std::string mig_profile_of(const std::string& name) {
  static const std::string kMark = " MIG ";
  const auto at = name.rfind(kMark);
  return at == std::string::npos ? "" : name.substr(at + kMark.size());
}

DeviceInfo describe_device(int ordinal) {
  CUdevice device = 0;
  check(driver().cuDeviceGet(&device, ordinal), "cuDeviceGet");
  char name[256] = {};
  check(driver().cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName");
  CUuuid uuid{};
  check(driver().cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
  std::size_t memory = 0;
  check(driver().cuDeviceTotalMem(&memory, device), "cuDeviceTotalMem");

  DeviceInfo info;
  info.ordinal = ordinal;
  info.name = name;
  info.mig_profile = mig_profile_of(info.name);
  info.uuid = format_uuid(uuid, info.mig_profile.empty() ? "GPU-" : "MIG-");
  info.cc_major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  info.cc_minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  info.sm_count = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  info.memory_bytes = static_cast<std::int64_t>(memory);
  info.l2_bytes = attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  info.smem_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  info.smem_per_block = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  info.regs_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  info.threads_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  info.memory_clock_mhz = attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) / 1000;
  info.bus_width_bits = attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  info.clock_mhz = attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000;
  info.power_limit_watts = nvml::default_power_limit_watts(info.uuid).value_or(0);
  return info;
}

// 0 where cuInit finds none.
int device_count() {
  try {
    int count = 0;
    check(driver().cuDeviceGetCount(&count), "cuDeviceGetCount");
    return count;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_device) throw;
    return 0;
  }
}

// GiB of the memory class: 80 for a GPU of 80 GB, 48 for 45 and 48, 136 for an H200.
long memory_class_gib(std::int64_t bytes) {
  constexpr double kClassesPerOctave = 4;
  // Sizes in use (1, 1.25, 1.5 and about 1.1, 1.4 times a power of two, less up to 3 %) leave one wide gap, between
  // 2^0.13 and 2^0.23; the classes' edges stand in it and, a quarter octave apart, in like gaps.
  constexpr double kEdge = 0.28;
  constexpr double kMiddle = 0.34;
  const double gib = static_cast<double>(bytes) / static_cast<double>(std::int64_t{1} << 30);
  if (gib <= 0) return 0;
  const double index = std::floor(kClassesPerOctave * std::log2(gib) + kEdge);
  return std::lround(std::exp2((index + kMiddle) / kClassesPerOctave));
}

// 0 where either side does not know.
double octaves_apart(double a, double b) { return a > 0 && b > 0 ? std::abs(std::log2(a / b)) : 0; }

}  // namespace

std::int64_t DeviceInfo::dram_gbps() const noexcept {
  // Two transfers a clock on every bus in use.
  return std::int64_t{2} * memory_clock_mhz * bus_width_bits / 8 / 1000;
}

std::string DeviceInfo::arch() const { return "sm_" + std::to_string(cc()) + (cc_major >= 9 ? "a" : ""); }

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
  const int count = device_count();
  for (int ordinal = 0; ordinal < count; ++ordinal) devices.push_back(describe_device(ordinal));
  return devices;
}

DeviceInfo device_info(int ordinal) {
  const int count = device_count();
  if (ordinal >= 0 && ordinal < count) return describe_device(ordinal);
  throw Error(ErrorCode::no_device,
              "there is no GPU " + std::to_string(ordinal) +
                  (count == 0 ? "; the driver shows none" : "; the driver shows 0 to " + std::to_string(count - 1)) +
                  " (CUDA_VISIBLE_DEVICES hides those it does not name)");
}

std::string hardware_class(const DeviceInfo& device) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  constexpr int kPowerStep = 50;
  std::string text = "cc" + std::to_string(device.cc_major) + "." + std::to_string(device.cc_minor);
  text += "-sm" + std::to_string(device.sm_count);
  text += "-mem" + std::to_string(memory_class_gib(device.memory_bytes)) + "g";
  text += "-l2_" + std::to_string((device.l2_bytes + kMiB / 2) / kMiB) + "m";
  text +=
      "-smem" + std::to_string(device.smem_per_sm / 1024) + "k/" + std::to_string(device.smem_per_block / 1024) + "k";
  text += "-bw" + std::to_string(device.dram_gbps());
  text += "-pw" + std::to_string((device.power_limit_watts + kPowerStep / 2) / kPowerStep * kPowerStep);
  if (!device.mig_profile.empty()) text += "-mig" + device.mig_profile;
  return text;
}

double class_distance(const DeviceInfo& a, const DeviceInfo& b) {
  if (a.cc() != b.cc()) return std::numeric_limits<double>::infinity();
  return octaves_apart(a.sm_count, b.sm_count) +
         octaves_apart(static_cast<double>(a.dram_gbps()), static_cast<double>(b.dram_gbps())) +
         octaves_apart(static_cast<double>(a.l2_bytes), static_cast<double>(b.l2_bytes)) +
         octaves_apart(a.clock_mhz, b.clock_mhz) + octaves_apart(a.power_limit_watts, b.power_limit_watts);
}

}  // namespace kiln::cuda
