// The symbols of one template on one problem and device, bound once, and re-evaluated cheaply as the configuration
// changes. Not thread-safe; keeps no reference to its arguments but the template.
#pragma once

#include <string>
#include <vector>

#include "kernel/template.h"

namespace kiln {

class ConfigScope {
 public:
  // Parameters start at 0; call set() before reading anything that depends on them.
  ConfigScope(const KernelTemplate& t, const Problem& problem, const cuda::DeviceInfo& device);
  ConfigScope(const ConfigScope&) = delete;
  ConfigScope& operator=(const ConfigScope&) = delete;

  // Sets every parameter and let. Throws Error{invalid_argument} when `config` misses or adds a parameter, and
  // Error{invalid_expression} for a value or let that cannot be computed with.
  void set(const Config& config);
  Scope& scope() noexcept { return scope_; }
  const KernelTemplate& kernel_template() const noexcept { return template_; }

  struct Let {
    double* slot;
    Evaluator value;
    int level;  // index of the last parameter it depends on; −1: none
  };
  struct Constraint {
    const Requirement* requirement;
    Evaluator holds;
    int level;
  };
  // For the enumerator, which sets parameters one at a time: their slots, in the manifest's order.
  const std::vector<double*>& param_slots() const noexcept { return param_slots_; }
  const std::vector<Let>& lets() const noexcept { return lets_; }
  const std::vector<Constraint>& constraints() const noexcept { return constraints_; }

 private:
  const KernelTemplate& template_;
  Scope scope_;
  std::vector<double*> param_slots_;
  std::vector<Let> lets_;
  std::vector<Constraint> constraints_;
};

}  // namespace kiln
