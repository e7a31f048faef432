// Ctrl-C and SIGTERM, for commands that keep what they have done: the first asks for a stop, a second one ends the
// process as it would without this. Signal-safe; one per process at a time.
#pragma once

#include <csignal>

namespace kiln::cli {

// Listens for as long as it lives, then restores what was there.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool requested() noexcept;

 private:
  struct sigaction on_interrupt_ = {};
  struct sigaction on_terminate_ = {};
};

}  // namespace kiln::cli
