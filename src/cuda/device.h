// What a GPU is, as far as tuning cares: the fingerprint behind a hardware class and the symbols of expressions.
// Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::cuda {

struct DeviceInfo {
  int ordinal = -1;  // -1: a profile, not a device of this machine
  std::string name;  // a label, never a key
  std::string uuid;  // "GPU-…" or "MIG-…"; empty for a profile
  int cc_major = 0;
  int cc_minor = 0;
  int sm_count = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  int smem_per_sm = 0;     // bytes
  int smem_per_block = 0;  // bytes, opt-in limit
  int regs_per_sm = 0;
  int threads_per_sm = 0;
  int memory_clock_mhz = 0;
  int bus_width_bits = 0;
  int clock_mhz = 0;          // maximum SM clock
  int power_limit_watts = 0;  // default limit; 0: unknown
  std::string mig_profile;    // empty: not a MIG instance

  int cc() const noexcept { return cc_major * 10 + cc_minor; }
  // Peak device-memory bandwidth in 10⁹ bytes/s from memory clock and bus width.
  std::int64_t dram_gbps() const noexcept;
  // "sm_90a" where the architecture has its own features (9.0 and up), else "sm_86".
  std::string arch() const;
};

// Every device the driver shows. Empty when there is a driver and no device. Throws Error{no_driver}.
std::vector<DeviceInfo> list_devices();
// Throws Error{no_device} naming what there is.
DeviceInfo device_info(int ordinal);

// The key that tuned results are stored under: equal for chips that perform alike, whatever their name, e.g.
// "cc9.0-sm132-mem136g-l2_60m-smem228k/227k-bw4814-pw700", and "-mig1g.18gb" behind it for a MIG instance. L2 in MiB,
// power in steps of 50 W (pw0: unknown), memory in classes a quarter octave wide, their edges far from the sizes that
// GPUs come in: what ECC or the driver reserves does not change the class. The class is named by its middle.
std::string hardware_class(const DeviceInfo& device);

// How unlike two classes are for choosing configurations: 0 same, infinity when the compute capability differs.
// Sum of |log2| ratios of SM count, bandwidth, L2, clock and power; what either does not know counts for nothing.
double class_distance(const DeviceInfo& a, const DeviceInfo& b);

}  // namespace kiln::cuda
