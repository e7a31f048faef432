// Which GPU a person means by "--gpu": one of this machine, or only a kind of GPU to predict for. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "cuda/device.h"

namespace kiln::tuner {

struct GpuChoice {
  cuda::DeviceInfo device;
  bool is_here = false;  // false: a profile, nothing can be measured on it
};

// `gpu`: a UUID (or an unambiguous start of one), an index, a profile's name ("h200"), or empty for device 0. A profile
// is a device of this machine where one of its hardware class is here. `here`: the devices of this machine. Throws
// Error{no_device} listing devices and profiles when nothing fits.
GpuChoice choose_gpu(const std::string& gpu, const std::vector<cuda::DeviceInfo>& here);
// The same with the devices that the driver shows, none where there is no driver.
GpuChoice choose_gpu(const std::string& gpu);

}  // namespace kiln::tuner
