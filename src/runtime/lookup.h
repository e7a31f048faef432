// The lookup ladder: from a problem to the best known legal configuration, with where it came from. Every answer is
// checked against the actual problem and device before it is given. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "kernel/template_set.h"
#include "kiln/operation.h"
#include "runtime/store.h"

namespace kiln {

struct Answer {
  TemplatePtr kernel_template;
  Config config;
  Rung rung = Rung::fallback;
  std::string source;
  double expected_us = 0;
  bool stale = false;
  std::optional<Decision> decision;  // behind the measured, preset and stored-predicted rungs
  std::vector<std::string> notes;    // rung by rung: why the better ones did not answer
};

class Lookup {
 public:
  struct Context {
    const TemplateSet* templates = nullptr;
    Store* store = nullptr;
    std::function<std::vector<Preset>(const std::string& op)> presets;  // may be empty: none
    std::vector<cuda::DeviceInfo> profiles;  // of the presets' hardware classes, for class distance
    cuda::DeviceInfo device;
    Versions versions;
  };
  explicit Lookup(Context context);

  // Throws Error{unsupported} when no template accepts the problem, or none has a legal configuration for it (each
  // one's reason listed), and only then.
  // `only_template`: consider no other (empty: all of the op).
  Answer find(const Problem& problem, const std::string& only_template = {}) const;
  // Every problem of an op that is decided on this very hardware class: those stored, then those shipped.
  std::vector<Problem> known(const std::string& op) const;

 private:
  class Descent;
  // Asked for once for each op, and kept.
  const std::vector<Preset>& presets_of(const std::string& op) const;

  Context context_;
  std::string hardware_class_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<Preset>> presets_;  // by op; none ever goes or changes
};

// The configuration that `t`'s cost model likes best for the problem, or its default where it has none.
struct Prediction {
  Config config;
  double us = 0;  // 0: no cost model
};
Prediction predict(const KernelTemplate& t, const Problem& problem, const cuda::DeviceInfo& device);

}  // namespace kiln
