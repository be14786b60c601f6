// Child processes that run this program again: starts them and waits for signals. The caller
// divides the work.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace penstock {

/// Blocks the stopping signals (train/interrupt.h) and SIGCHLD while the object lives. next() waits
/// for them.
class WaitedSignals {
 public:
  WaitedSignals();
  ~WaitedSignals();
  WaitedSignals(const WaitedSignals&) = delete;
  WaitedSignals& operator=(const WaitedSignals&) = delete;
  /// The signal mask before this object, which started programs must get.
  const sigset_t& before() const { return before_; }
  /// The next signal, or 0 if none comes for a while.
  int next() const;

 private:
  sigset_t set_{}, before_{};
};

/// Starts this program with those arguments and environment variables. The first argument is the
/// program's name. The child ends with this process. A terminal's Ctrl-C does not reach the child.
/// Throws Error if the system cannot start another process.
pid_t start_program(std::vector<std::string> arguments, std::vector<std::string> environment,
                    const WaitedSignals& signals);

/// This process's environment variables, in the form that start_program() takes.
std::vector<std::string> own_environment();

}  // namespace penstock
