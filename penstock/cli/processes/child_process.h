// This program again, as processes that it starts and waits for. Who does what is the caller's.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace penstock {

/// SIGINT, SIGTERM, SIGHUP and SIGCHLD, which this process waits for while the object lives.
class WaitedSignals {
 public:
  WaitedSignals();
  ~WaitedSignals();
  WaitedSignals(const WaitedSignals&) = delete;
  WaitedSignals& operator=(const WaitedSignals&) = delete;
  /// The mask that other programs are to get.
  const sigset_t& before() const { return before_; }
  /// The next one, or 0 after a while.
  int next() const;

 private:
  sigset_t set_{}, before_{};
};

/// Starts this program with those arguments, the first of which is its name, and variables. It ends
/// with this process, and a terminal's Ctrl-C does not reach it. Throws Error where the system
/// starts no more.
pid_t start_program(std::vector<std::string> arguments, std::vector<std::string> environment,
                    const WaitedSignals& signals);

/// This process's own variables, as start_program() takes them.
std::vector<std::string> own_environment();

}  // namespace penstock
