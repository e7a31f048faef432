// Where tuning happens for real: the store, the compile pool, and for a GPU of this machine its lock and its worker
// process. Held for the length of a run. Not thread-safe.
#pragma once

#include <memory>
#include <optional>

#include "tuner/gpu_choice.h"
#include "tuner/tuning.h"
#include "tuner/worker/gpu_lock.h"
#include "tuner/workshop.h"

namespace kiln::tuner {

class Lab {
 public:
  // Waits for the GPU where another run has it, as long as options.budget allows. `templates` and `observer` must
  // outlive it. Throws Error{not_found} without a helper program, Error{interrupted} when the observer ended the wait.
  Lab(const RuntimeOptions& runtime, const TuneOptions& options, const GpuChoice& gpu, const TemplateSet& templates,
      TuneObserver& observer);

  const TuningParts& parts() const noexcept { return parts_; }

 private:
  std::unique_ptr<Store> store_;
  std::filesystem::path helper_;
  PoolCompiler compiler_;
  std::optional<GpuLock> lock_;
  std::optional<ProcessMeasurer> measurer_;
  TuningParts parts_;
};

}  // namespace kiln::tuner
