// A kernel template: manifest, op, sources and digest. Immutable; thread-safe; shared by everything that launches it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/digest.h"
#include "cuda/device.h"
#include "jit/compile.h"
#include "kernel/manifest.h"

namespace kiln {

struct KernelTemplate {
  Manifest manifest;
  std::shared_ptr<const OpSpec> op;
  std::string file;                            // the manifest's path, or "templates/…" when embedded
  std::string include;                         // how the generated unit includes the source
  std::map<std::string, std::string> headers;  // include name → text: the source and all it may include
  std::vector<std::string> include_paths;      // searched for <…> includes; empty for embedded templates
  LazyDigest digest;  // of what changes the code or its launch: sources and those parts of the manifest
};
using TemplatePtr = std::shared_ptr<const KernelTemplate>;

// Puts the device's symbols in scope: sm_count, smem_per_block, …
void bind_device(const cuda::DeviceInfo& device, Scope& scope);

// Why `t` cannot solve `problem` on `device`, or empty when it can: architecture, dtypes, require_problem.
std::string rejection(const KernelTemplate& t, const Problem& problem, const cuda::DeviceInfo& device);

// The target `t` is compiled for on `device`, e.g. "sm_90a", or empty when the device is not among manifest.arch.
std::string target_arch(const KernelTemplate& t, const cuda::DeviceInfo& device);

// Predicted time of one call in microseconds, by manifest.cost; 0 without a cost model. Config must be legal.
double predicted_us(const KernelTemplate& t, const Problem& problem, const Config& config,
                    const cuda::DeviceInfo& device);

}  // namespace kiln
