// SIGINT, SIGTERM and SIGHUP as a flag that the training loop asks for between steps.
#pragma once

#include <csignal>

namespace penstock {

/// While alive, SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process; a second
/// SIGINT ends it at once. Restores the earlier handlers. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// The signal that came, or 0.
  int signal() const;

 private:
  struct sigaction old_int_, old_term_, old_hangup_;
};

}  // namespace penstock
