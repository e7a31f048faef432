// The lookup ladder: from a problem to the best known legal configuration, with where it came from. Every answer is
// checked against the actual problem and device before it is given. Thread-safe.
#pragma once

#include <functional>
#include <memory>
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
    std::vector<Decision> presets;
    std::vector<cuda::DeviceInfo> profiles;  // of the presets' hardware classes, for class distance
    cuda::DeviceInfo device;
    Versions versions;
  };
  explicit Lookup(Context context);

  // Throws Error{unsupported} when no template accepts the problem, or none has a legal configuration for it (each
  // one's reason listed), and only then.
  // `only_template`: consider no other (empty: all of the op).
  Answer find(const Problem& problem, const std::string& only_template = {}) const;
  // Every decision for an op on this very hardware class: those stored, then those shipped.
  std::vector<Decision> known(const std::string& op) const;

 private:
  class Descent;
  Context context_;
  std::string hardware_class_;
};

// The configuration that `t`'s cost model likes best for the problem, or its default where it has none.
struct Prediction {
  Config config;
  double us = 0;  // 0: no cost model
};
Prediction predict(const KernelTemplate& t, const Problem& problem, const cuda::DeviceInfo& device);

}  // namespace kiln
