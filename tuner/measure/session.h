// One measuring job on one GPU: every candidate is checked, then the right ones and the peers are timed in interleaved
// rounds. Runs in the worker process. Not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "cuda/memory.h"
#include "kernel/template_set.h"
#include "kiln/error.h"
#include "tuner/candidate.h"

namespace kiln::tuner {

// Told of everything as it happens; over a channel, the parent.
class SessionSink {
 public:
  virtual ~SessionSink() = default;
  // What is touched next, so that a crash or a hang can be blamed.
  virtual void preparing() = 0;
  virtual void touching(std::size_t candidate) = 0;
  virtual void touching_peer(const std::string& name) = 0;
  virtual void checked(std::size_t candidate, double error) = 0;
  virtual void ended(std::size_t candidate, const Outcome& outcome) = 0;
  virtual void peer_ended(const std::string& name, const Timing& timing) = 0;
  virtual void peer_failed(const std::string& name, const std::string& why) = 0;
  virtual void warning(const std::string& message) = 0;
  virtual bool stop_requested() = 0;
};

// A GPU that this process measures on. Makes its primary context current for its lifetime.
class MeasuringDevice {
 public:
  // Throws Error{no_driver}, {no_device}.
  explicit MeasuringDevice(const std::string& uuid);

  const cuda::DeviceInfo& info() const noexcept { return info_; }
  CUdevice handle() const noexcept { return context_.device(); }
  CUstream stream() const noexcept { return stream_.get(); }

 private:
  cuda::DeviceInfo info_;
  cuda::PrimaryContext context_;
  cuda::ContextScope current_;
  cuda::UniqueStream stream_;
};

// Throws Error with a sticky native code when the context is lost (see is_context_lost), and Error for what concerns
// the whole job: no memory for one set of operands, a reference that does not run, a manifest that does not fit.
void run_session(const MeasureJob& job, const MeasuringDevice& device, const TemplateSet& templates, SessionSink& sink);

// Whether after `error` the process's context serves nobody any more.
bool is_context_lost(const Error& error) noexcept;

}  // namespace kiln::tuner
