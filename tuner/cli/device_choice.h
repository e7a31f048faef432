// Which GPU a command is about: one of this machine, or a profile of one that need not be here. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "cuda/device.h"

namespace kiln::cli {

struct DeviceChoice {
  cuda::DeviceInfo device;
  bool present = false;  // false: a profile, whether or not such a GPU is in the machine
};

// `gpu`: a profile's name, an index or a UUID; empty: the first GPU of this machine. A profile's name never touches the
// driver. Throws Error{no_driver} or {no_device} saying what there is, and which profiles --gpu takes.
DeviceChoice choose_device(const std::string& gpu);

// A device of `arch` ("sm_90a", "sm_86"), for compiling: the first profile with that compute capability, or one with
// the limits that the CUDA programming guide states for it. Throws Error{invalid_argument} for a text that is no
// target.
cuda::DeviceInfo device_for_arch(const std::string& arch);

// Where --gpu and --arch are both allowed: at most one may be given.
DeviceChoice choose_device_or_arch(const std::string& gpu, const std::string& arch);

}  // namespace kiln::cli
