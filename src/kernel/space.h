// All legal configurations of a template for a problem on a device. A constraint prunes as soon as the last parameter
// it reads is bound, so a space of 10⁶ raw points costs about as much as its legal remainder. Thread-safe (no state).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernel/template.h"

namespace kiln {

struct SpaceLimits {
  std::size_t max_configs = 200'000;       // stop after so many legal ones
  std::uint64_t max_visited = 20'000'000;  // stop after so many partial assignments
};

struct PruneCount {
  std::string constraint;
  std::string reason;
  std::uint64_t pruned = 0;  // partial assignments it ended
};

struct SpaceSummary {
  std::uint64_t legal = 0;
  std::uint64_t visited = 0;  // partial assignments looked at
  double raw_size = 0;        // product of the value lists' lengths
  std::vector<PruneCount> pruned;
  bool truncated = false;  // a limit was met: not the whole space
};

struct Space {
  std::vector<Config> configs;  // in the order of the manifest's value lists
  SpaceSummary summary;
};

// Throws Error{invalid_expression} naming template and constraint when one cannot be evaluated.
Space enumerate(const KernelTemplate& t, const Problem& problem, const cuda::DeviceInfo& device,
                const SpaceLimits& limits = {});

// The same without keeping them: `visit` sees each legal configuration while `bound`'s scope holds its values, so that
// a bound Evaluator (a cost model, say) reads them at no further cost.
class ConfigScope;
using ConfigVisitor = std::function<void(const Config&)>;
SpaceSummary for_each_config(ConfigScope& bound, const SpaceLimits& limits, const ConfigVisitor& visit);

// The reason of the first constraint that `config` breaks on this problem and device, or empty. Also checks that it
// names every parameter (a value outside the manifest's list is allowed).
std::string illegal_reason(const KernelTemplate& t, const Problem& problem, const Config& config,
                           const cuda::DeviceInfo& device);

}  // namespace kiln
