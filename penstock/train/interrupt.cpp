#include "penstock/train/interrupt.h"

#include <unistd.h>

#include <atomic>

namespace penstock {
namespace {

// A signal may arrive in any thread.
std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // or the handler could not use it

void on_signal(int number) {
  if (received != 0 && number == SIGINT) _exit(130);
  received = number;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
  sigaction(SIGHUP, &action, &old_hangup_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGHUP, &old_hangup_, nullptr);
}

int InterruptGuard::signal() const { return received; }

}  // namespace penstock
