#include "tuner/cli/interrupt.h"

namespace kiln::cli {
namespace {

// The one thing a signal handler can reach.
volatile std::sig_atomic_t stop_requested = 0;

void listen(int signal, struct sigaction* previous) {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_requested = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, previous);
}

}  // namespace

InterruptScope::InterruptScope() {
  stop_requested = 0;
  listen(SIGINT, &on_interrupt_);
  listen(SIGTERM, &on_terminate_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &on_interrupt_, nullptr);
  sigaction(SIGTERM, &on_terminate_, nullptr);
}

bool InterruptScope::requested() noexcept { return stop_requested != 0; }

}  // namespace kiln::cli
