#include "kernel/template.h"

#include <algorithm>

#include "kernel/config_scope.h"
#include "kiln/error.h"

namespace kiln {
namespace {

struct Arch {
  int number = 0;   // 90
  char suffix = 0;  // 'a', 'f', '+', or 0
};

Arch parse_arch(const std::string& text) {
  Arch arch;
  std::size_t used = 0;
  arch.number = std::stoi(text.substr(3), &used);
  if (3 + used < text.size()) arch.suffix = text[3 + used];
  return arch;
}

// Whether code for `entry` serves a device: "sm_80+" that and later ones, "sm_90a" only 9.0, "sm_86" and "sm_100f" that
// and later minor versions of the same major.
bool serves(const std::string& entry, const cuda::DeviceInfo& device) {
  const Arch arch = parse_arch(entry);
  if (arch.suffix == '+') return device.cc() >= arch.number;
  if (arch.suffix == 'a') return device.cc() == arch.number;
  return device.cc_major == arch.number / 10 && device.cc() >= arch.number;
}

std::string dtype_mismatch(const AcceptRule& rule, const Problem& problem) {
  for (const auto& [name, allowed] : rule.dtypes) {
    const DType met = problem.dtypes.at(name);
    const auto same = rule.same_as.find(name);
    const bool matches_other = same != rule.same_as.end() && problem.dtypes.at(same->second) == met;
    if (!matches_other && std::find(allowed.begin(), allowed.end(), met) == allowed.end()) {
      return name + "=" + std::string(to_string(met));
    }
  }
  for (const auto& [name, other] : rule.same_as) {
    if (rule.dtypes.count(name) == 0 && problem.dtypes.at(name) != problem.dtypes.at(other)) {
      return name + "=" + std::string(to_string(problem.dtypes.at(name))) + " with " + other + "=" +
             std::string(to_string(problem.dtypes.at(other)));
    }
  }
  return {};
}

// A complete problem names those choices that it takes at another value than the default.
std::string unhandled_choice(const KernelTemplate& t, const Problem& problem) {
  for (const ChoiceSpec& spec : t.op->choices) {
    const auto given = problem.choices.find(spec.name);
    const auto& handles = t.manifest.handles;
    if (!spec.omit_default || given == problem.choices.end() || given->second == spec.fallback) continue;
    if (std::find(handles.begin(), handles.end(), spec.name) == handles.end()) return spec.name + "=" + given->second;
  }
  return {};
}

}  // namespace

void bind_device(const cuda::DeviceInfo& device, Scope& scope) {
  scope.set("sm_count", device.sm_count);
  scope.set("smem_per_block", device.smem_per_block);
  scope.set("smem_per_sm", device.smem_per_sm);
  scope.set("l2_bytes", device.l2_bytes);
  scope.set("regs_per_sm", device.regs_per_sm);
  scope.set("cc", device.cc());
  scope.set("dram_gbps", device.dram_gbps());
  scope.set("clock_mhz", device.clock_mhz);
}

std::string target_arch(const KernelTemplate& t, const cuda::DeviceInfo& device) {
  for (const std::string& entry : t.manifest.arch) {
    if (!serves(entry, device)) continue;
    // Only a template that names a target with features of its own needs it; the others are compiled for the plain one.
    const char suffix = parse_arch(entry).suffix;
    return suffix == 'a' || suffix == 'f' ? entry : "sm_" + std::to_string(device.cc());
  }
  return {};
}

std::string rejection(const KernelTemplate& t, const Problem& problem, const cuda::DeviceInfo& device) {
  if (target_arch(t, device).empty()) {
    std::string list;
    for (const std::string& entry : t.manifest.arch) list += (list.empty() ? "" : ", ") + entry;
    return "runs on " + list + ", not on compute capability " + std::to_string(device.cc_major) + "." +
           std::to_string(device.cc_minor);
  }
  std::string mismatch;
  const Problem full = in_full(*t.op, problem);
  for (const AcceptRule& rule : t.manifest.accept) {
    mismatch = dtype_mismatch(rule, full);
    if (mismatch.empty()) break;
  }
  if (mismatch.empty()) mismatch = unhandled_choice(t, problem);
  if (!mismatch.empty()) return "does not take " + mismatch;
  Scope scope;
  bind_problem(*t.op, problem, scope);
  bind_device(device, scope);
  try {
    for (const Requirement& r : t.manifest.require_problem) {
      if (r.condition.evaluate(scope) == 0) return r.reason + " (" + r.condition.text() + ")";
    }
  } catch (const Error& error) {
    return error.what();  // one template's division by zero must not keep the others from answering
  }
  return {};
}

double predicted_us(const KernelTemplate& t, const Problem& problem, const Config& config,
                    const cuda::DeviceInfo& device) {
  if (!t.manifest.cost_cycles) return 0;
  ConfigScope bound(t, problem, device);
  bound.set(config);
  return static_cast<double>(t.manifest.cost_cycles->evaluate(bound.scope())) / std::max(1, device.clock_mhz);
}

}  // namespace kiln
