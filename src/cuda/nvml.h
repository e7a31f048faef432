// NVML, opened at run time when first needed: clocks, throttle reasons, power limit and foreign processes of one GPU.
// Everything is optional: where NVML is missing or refuses, the answer is empty. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cuda::nvml {

struct Sample {
  int sm_clock_mhz = 0;
  std::uint64_t throttle_reasons = 0;  // nvmlClocksEventReasons bits
  int temperature_c = 0;
  double power_watts = 0;
};

// Of the device with this UUID, or empty.
std::optional<Sample> sample(const std::string& uuid);
std::optional<int> default_power_limit_watts(const std::string& uuid);
std::optional<int> max_sm_clock_mhz(const std::string& uuid);
// Process ids other than this one that compute on the GPU; empty too when NVML cannot tell.
std::vector<unsigned> foreign_processes(const std::string& uuid);
// The throttle reasons in words, e.g. "power cap, thermal"; "none".
std::string describe_throttle(std::uint64_t reasons);

}  // namespace kiln::cuda::nvml
