#include "penstock/data/packages/run_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "penstock/base/argv.h"
#include "penstock/base/error.h"

namespace penstock {
namespace {

std::vector<std::string> environment_in_c() {
  std::vector<std::string> out = {"LC_ALL=C"};
  for (char** variable = environ; *variable; ++variable)
    if (!std::string_view(*variable).starts_with("LC_ALL=")) out.emplace_back(*variable);
  return out;
}

std::string read_all(int file) {
  std::string out;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return out;
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

ProgramResult run_program(std::vector<std::string> arguments, const std::string& folder,
                          bool with_errors) {
  auto environment = environment_in_c();
  const auto argv = argv_of(arguments), envp = argv_of(environment);
  std::array<int, 2> pipe{};
  PENSTOCK_CHECK(::pipe2(pipe.data(), O_CLOEXEC) == 0, "cannot run ", arguments[0], ": ",
                 std::strerror(errno));
  const pid_t parent = ::getpid(), process = ::fork();
  if (process == 0) {
    // From here on only calls that are safe after a fork of a process with threads.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent || ::chdir(folder.c_str()) != 0) ::_exit(127);
    ::signal(SIGPIPE, SIG_DFL);  // ranks ignore SIGPIPE; programs expect the default
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(with_errors ? pipe[1] : nothing, STDERR_FILENO);
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  ProgramResult result;
  if (process > 0) result.output = read_all(pipe[0]);
  ::close(pipe[0]);
  PENSTOCK_CHECK(process > 0, "cannot run ", arguments[0], ": the system starts no more processes");
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace penstock
