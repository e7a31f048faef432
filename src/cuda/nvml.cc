#include "cuda/nvml.h"

#include <array>
#include <initializer_list>

#include <dlfcn.h>
#include <unistd.h>

#include "base/log.h"

namespace kiln::cuda::nvml {
namespace {

// What Kiln uses of NVML's interface, declared here since nvml.h does not come with every toolkit. Source: NVML API
// Reference Guide.
using Device = void*;
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr unsigned kClockSm = 1;
constexpr unsigned kTemperatureGpu = 0;

struct ProcessEntry {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct Functions {
  int (*init)() = nullptr;
  int (*handle_by_uuid)(const char*, Device*) = nullptr;
  int (*parent_of_mig)(Device, Device*) = nullptr;
  int (*clock)(Device, unsigned, unsigned*) = nullptr;
  int (*max_clock)(Device, unsigned, unsigned*) = nullptr;
  int (*throttle_reasons)(Device, unsigned long long*) = nullptr;
  int (*temperature)(Device, unsigned, unsigned*) = nullptr;
  int (*power_milliwatts)(Device, unsigned*) = nullptr;
  int (*default_power_limit)(Device, unsigned*) = nullptr;
  int (*compute_processes)(Device, unsigned*, ProcessEntry*) = nullptr;
};

template <class Function>
void resolve(void* library, std::initializer_list<const char*> names, Function& function) {
  for (const char* name : names) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function != nullptr) return;
  }
}

// Stays loaded and initialised until the process ends. Without NVML every function is null.
Functions load() {
  Functions api;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    log("cuda")->debug("no NVML: libnvidia-ml.so.1 cannot be loaded");
    return api;
  }
  resolve(library, {"nvmlInit_v2"}, api.init);
  if (api.init == nullptr || api.init() != kSuccess) {
    log("cuda")->debug("no NVML: nvmlInit_v2 failed");
    return api;
  }
  resolve(library, {"nvmlDeviceGetHandleByUUID"}, api.handle_by_uuid);
  resolve(library, {"nvmlDeviceGetDeviceHandleFromMigDeviceHandle"}, api.parent_of_mig);
  resolve(library, {"nvmlDeviceGetClockInfo"}, api.clock);
  resolve(library, {"nvmlDeviceGetMaxClockInfo"}, api.max_clock);
  resolve(library, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
          api.throttle_reasons);
  resolve(library, {"nvmlDeviceGetTemperature"}, api.temperature);
  resolve(library, {"nvmlDeviceGetPowerUsage"}, api.power_milliwatts);
  resolve(library, {"nvmlDeviceGetPowerManagementDefaultLimit"}, api.default_power_limit);
  resolve(library, {"nvmlDeviceGetComputeRunningProcesses_v3"}, api.compute_processes);
  return api;
}

const Functions& functions() {
  static const Functions kFunctions = load();
  return kFunctions;
}

Device find_device(const std::string& uuid) {
  Device device = nullptr;
  const Functions& api = functions();
  if (api.handle_by_uuid == nullptr || api.handle_by_uuid(uuid.c_str(), &device) != kSuccess) return nullptr;
  return device;
}

// The whole GPU that a MIG instance is part of: clocks and power are the GPU's.
Device find_gpu(const std::string& uuid) {
  Device device = find_device(uuid);
  Device gpu = nullptr;
  const Functions& api = functions();
  const bool is_mig = uuid.rfind("MIG-", 0) == 0;
  if (device == nullptr || !is_mig || api.parent_of_mig == nullptr) return device;
  return api.parent_of_mig(device, &gpu) == kSuccess ? gpu : nullptr;
}

// The answer of a query for one unsigned value, or empty.
template <class Function, class... Selector>
std::optional<unsigned> query(Function function, Device device, Selector... selector) {
  unsigned value = 0;
  if (function == nullptr || device == nullptr || function(device, selector..., &value) != kSuccess)
    return std::nullopt;
  return value;
}

}  // namespace

std::optional<Sample> sample(const std::string& uuid) {
  const Functions& api = functions();
  const Device gpu = find_gpu(uuid);
  const auto clock = query(api.clock, gpu, kClockSm);
  if (!clock) return std::nullopt;
  unsigned long long reasons = 0;
  if (api.throttle_reasons == nullptr || api.throttle_reasons(gpu, &reasons) != kSuccess) reasons = 0;
  return Sample{.sm_clock_mhz = static_cast<int>(*clock),
                .throttle_reasons = reasons,
                .temperature_c = static_cast<int>(query(api.temperature, gpu, kTemperatureGpu).value_or(0)),
                .power_watts = query(api.power_milliwatts, gpu).value_or(0) / 1000.0};
}

std::optional<int> default_power_limit_watts(const std::string& uuid) {
  const auto milliwatts = query(functions().default_power_limit, find_gpu(uuid));
  if (!milliwatts) return std::nullopt;
  return static_cast<int>(*milliwatts / 1000);
}

std::optional<int> max_sm_clock_mhz(const std::string& uuid) {
  const auto megahertz = query(functions().max_clock, find_gpu(uuid), kClockSm);
  if (!megahertz) return std::nullopt;
  return static_cast<int>(*megahertz);
}

std::vector<unsigned> foreign_processes(const std::string& uuid) {
  const Functions& api = functions();
  const Device device = find_device(uuid);
  if (device == nullptr || api.compute_processes == nullptr) return {};
  std::vector<ProcessEntry> entries(64);
  int result = kInsufficientSize;
  // The list can grow between two calls.
  for (int attempt = 0; attempt < 3 && result == kInsufficientSize; ++attempt) {
    auto count = static_cast<unsigned>(entries.size());
    result = api.compute_processes(device, &count, entries.data());
    entries.resize(result == kInsufficientSize ? std::size_t{2} * count + 1 : count);
  }
  if (result != kSuccess) return {};
  std::vector<unsigned> pids;
  for (const ProcessEntry& entry : entries) {
    if (entry.pid != static_cast<unsigned>(getpid())) pids.push_back(entry.pid);
  }
  return pids;
}

std::string describe_throttle(std::uint64_t reasons) {
  struct Reason {
    std::uint64_t bit;
    const char* words;
  };
  static constexpr std::array kReasons{
      Reason{0x1, "idle"},
      Reason{0x2, "application clocks"},
      Reason{0x4, "power cap"},
      Reason{0x8, "hardware slowdown"},
      Reason{0x10, "sync boost"},
      Reason{0x20, "thermal"},
      Reason{0x40, "hardware thermal"},
      Reason{0x80, "power brake"},
      Reason{0x100, "display clocks"},
  };
  std::string text;
  std::uint64_t known = 0;
  for (const Reason& reason : kReasons) {
    known |= reason.bit;
    if ((reasons & reason.bit) != 0) text += std::string(text.empty() ? "" : ", ") + reason.words;
  }
  if ((reasons & ~known) != 0) text += std::string(text.empty() ? "" : ", ") + "unknown";
  return text.empty() ? "none" : text;
}

}  // namespace kiln::cuda::nvml
