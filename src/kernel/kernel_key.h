// What a cubin is, and the compile request that makes it.
#pragma once

#include <string>
#include <vector>

#include "kernel/template.h"

namespace kiln {

struct KernelKey {
  std::string template_digest;
  std::string config;     // compile-time parameters only
  std::string constants;  // dtypes, choices and baked dims
  std::string target;     // "sm_90a"
  std::string nvrtc;      // "13.0"
  std::string flags;
  std::string digest() const;
};

// Version of NVRTC is given, so that a process can look a cubin up without loading NVRTC.
// Throws Error{internal} when a component is empty: an unknown is never a wildcard.
KernelKey kernel_key(const KernelTemplate& t, const Problem& problem, const Config& config,
                     const cuda::DeviceInfo& device, const std::string& nvrtc_version);

// One unit instantiating every kernel of the template's launches for this configuration.
jit::CompileRequest compile_request(const KernelTemplate& t, const Problem& problem, const Config& config,
                                    const cuda::DeviceInfo& device);

// The same for [[check.launch]].
jit::CompileRequest check_compile_request(const KernelTemplate& t, const Problem& problem,
                                          const cuda::DeviceInfo& device);

}  // namespace kiln
