#include "penstock/cli/processes/child_process.h"

#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "penstock/base/argv.h"
#include "penstock/base/error.h"
#include "penstock/train/interrupt.h"

namespace penstock {

WaitedSignals::WaitedSignals() {
  ::sigemptyset(&set_);
  for (const int signal : stopping_signals()) ::sigaddset(&set_, signal);
  ::sigaddset(&set_, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
}

WaitedSignals::~WaitedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int WaitedSignals::next() const {
  const timespec patience{.tv_sec = 0, .tv_nsec = 200'000'000};
  const int signal = ::sigtimedwait(&set_, nullptr, &patience);
  return signal > 0 ? signal : 0;
}

pid_t start_program(std::vector<std::string> arguments, std::vector<std::string> environment,
                    const WaitedSignals& signals) {
  const auto argv = argv_of(arguments), envp = argv_of(environment);
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  PENSTOCK_CHECK(process >= 0, "the system starts no more processes: ", std::strerror(errno));
  if (process > 0) return process;
  // From here on, only calls that are safe after a fork of a process with threads. The child has
  // its own process group, so a terminal's Ctrl-C reaches only the parent, which forwards it once.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::setpgid(0, 0);
  ::pthread_sigmask(SIG_SETMASK, &signals.before(), nullptr);
  ::execve("/proc/self/exe", argv.data(), envp.data());
  ::_exit(127);
}

std::vector<std::string> own_environment() {
  std::vector<std::string> out;
  for (char** variable = environ; *variable; ++variable) out.emplace_back(*variable);
  return out;
}

}  // namespace penstock
