// What is known of GPUs that need not be in this machine: the data behind `--gpu h200` on a laptop. Read from the
// embedded presets/gpus.toml at the first call. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/device.h"

namespace kiln::cache {

// By short name or alias, whatever its case: "h200", "H100-SXM", "rtx4090". Empty when unknown.
std::optional<cuda::DeviceInfo> gpu_profile(std::string_view name);

// All of them, in the order of the file.
std::vector<cuda::DeviceInfo> gpu_profiles();

// The short names, in the order of the file: for messages and listings.
std::vector<std::string> gpu_profile_names();

}  // namespace kiln::cache
