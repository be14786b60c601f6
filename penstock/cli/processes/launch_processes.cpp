#include "penstock/cli/processes/launch_processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/cli/processes/child_process.h"
#include "penstock/cli/processes/ranks.h"
#include "penstock/dist/group_table.h"
#include "penstock/dist/key_server.h"
#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/interrupt.h"
#include "penstock/train/metrics_log.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// After one rank has died, the others notice at their next exchange and end by themselves. A rank
// that works alone, in an evaluation, gets SIGTERM after kAskAfter and SIGKILL after kEndAfter.
constexpr auto kAskAfter = 5s, kEndAfter = 15s;
// A rank that a signal has stopped blocks all others.
constexpr auto kStoppedFor = 20s;

/// This process's own arguments, without `--processes N`.
std::vector<std::string> arguments_of_rank() {
  std::ifstream file("/proc/self/cmdline");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> out;
  bool skip = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\0', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!skip && word != "--processes" && !word.starts_with("--processes=")) out.push_back(word);
    skip = !skip && word == "--processes";
    begin = end + 1;
  }
  return out;
}

/// This process's environment variables, and those that dist::identity_from() reads first.
std::vector<std::string> environment_of_rank(int rank, int processes, int port) {
  const std::map<std::string, int> own = {{"PENSTOCK_RANK", rank},
                                          {"PENSTOCK_LOCAL_RANK", rank},
                                          {"PENSTOCK_WORLD_SIZE", processes},
                                          {"PENSTOCK_LOCAL_WORLD_SIZE", processes},
                                          {"PENSTOCK_PORT", port}};
  std::vector<std::string> out;
  for (const std::string& text : own_environment())
    if (!own.contains(text.substr(0, text.find('=')))) out.push_back(text);
  for (const auto& [name, value] : own) out.push_back(concat(name, "=", value));
  return out;
}

struct Child {
  pid_t process = -1;
  bool running = true;
  int status = 0;
  std::optional<Clock::time_point> stopped = {};  ///< when a signal stopped it
  bool failed() const {
    return !running &&
           (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 130));
  }
  /// Whether it died by itself and did not report why.
  bool died() const {
    if (running || (WIFEXITED(status) && WEXITSTATUS(status) <= 2)) return false;
    return !(WIFEXITED(status) &&
             (WEXITSTATUS(status) == 130 || WEXITSTATUS(status) == kLostRankCode));
  }
};

int code_of(const Child& child) { return WIFEXITED(child.status) ? WEXITSTATUS(child.status) : 1; }

class Launch {
 public:
  explicit Launch(int processes) : table_("127.0.0.1", 0, dist::values_of_job(processes)) {
    for (int rank = 0; rank < processes; ++rank) children_.push_back(start(rank, processes));
  }

  /// Waits until all ranks have ended.
  void wait() {
    while (running() > 0) {
      const int signal = signals_.next();
      if (signal != 0 && signal != SIGCHLD) hand_on(signal);
      reap();
      end_stopped();
      if (!ending_) continue;
      const auto since = Clock::now() - *ending_;
      if (since > kEndAfter)
        end();
      else if (since > kAskAfter && !asked_) {
        send(SIGTERM);
        asked_ = true;
      }
    }
  }
  /// The rank that died first without reporting why; none where there is no such rank.
  std::optional<int> dead() const { return dead_; }
  const std::vector<Child>& children() const { return children_; }
  /// The first rank that was killed because it did not answer, though nobody interrupted it.
  std::optional<int> stuck() const { return stuck_; }
  /// The first rank that was killed because a signal had stopped it.
  std::optional<int> halted() const { return halted_; }
  /// Whether the user interrupted the run, and the launcher itself ended no rank.
  bool interrupted() const {
    return hurried_ || (!asked_ && std::ranges::count(children_, 130, &code_of) > 0);
  }
  /// Whether rank 0 of an interrupted run has told how it goes on. Where two interrupts ended the
  /// ranks, it may have ended without a word.
  bool told_how_to_go_on() const {
    if (!hurried_) return code_of(children_.front()) == 130;
    return std::ranges::count(children_, 130, &code_of) == std::ssize(children_);
  }
  /// Whether a forwarded signal ended rank 0, which had nothing to save yet.
  bool ended_before_it_began() const {
    const int status = children_.front().status;
    return handed_on_ != 0 && WIFSIGNALED(status) && WTERMSIG(status) == handed_on_;
  }

 private:
  Child start(int rank, int processes) {
    auto arguments = arguments_of_rank();
    auto environment = environment_of_rank(rank, processes, table_.port());
    return {.process = start_program(std::move(arguments), std::move(environment), signals_)};
  }

  /// Sends the ranks a signal that this process got. If it asks to end at once, ranks that do not
  /// end by it are killed later.
  void hand_on(int signal) {
    const auto now = Clock::now();
    if (handed_on_ == 0) first_signal_ = now;
    const bool again = handed_on_ != 0;
    if (again && !ends_at_once(signal, now - first_signal_)) return;
    send(signal);
    handed_on_ = signal;
    if (!again) return;
    hurried_ = asked_ = true;
    if (!ending_) ending_ = now;
  }
  void end() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      const Child& child = children_[rank];
      auto& reason = child.stopped ? halted_ : stuck_;
      if (child.running && !stuck_ && !halted_ && handed_on_ == 0) reason = static_cast<int>(rank);
    }
    send(SIGKILL);
  }
  std::size_t running() const {
    return static_cast<std::size_t>(std::ranges::count(children_, true, &Child::running));
  }
  void send(int signal) {
    for (const Child& child : children_)
      if (child.running) ::kill(child.process, signal);
  }
  void end_stopped() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      const Child& child = children_[rank];
      if (!child.running || !child.stopped || Clock::now() - *child.stopped < kStoppedFor) continue;
      if (!halted_ && !dead_) halted_ = static_cast<int>(rank);
      ::kill(child.process, SIGKILL);
    }
  }
  void reap() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      Child& child = children_[rank];
      int status = 0;
      if (!child.running ||
          ::waitpid(child.process, &status, WNOHANG | WUNTRACED | WCONTINUED) != child.process)
        continue;
      child.stopped.reset();
      if (WIFSTOPPED(status)) child.stopped = Clock::now();
      if (WIFSTOPPED(status) || WIFCONTINUED(status)) continue;
      child.status = status;
      child.running = false;
      const bool asked =
          asked_ || (WIFSIGNALED(child.status) && WTERMSIG(child.status) == handed_on_);
      if (child.died() && !dead_ && !halted_ && !asked) dead_ = static_cast<int>(rank);
      if (child.failed() && !asked && !ending_) ending_ = Clock::now();
    }
  }

  WaitedSignals signals_;
  dist::KeyServer table_;
  std::vector<Child> children_;
  std::optional<int> dead_, stuck_, halted_;
  std::optional<Clock::time_point> ending_;  // since when the ranks must end
  bool asked_ = false, hurried_ = false;
  int handed_on_ = 0;               // the last forwarded signal; 0: none
  Clock::time_point first_signal_;  // when the first signal was forwarded
};

std::string end_of(int status) {
  if (WIFSIGNALED(status))
    return concat("was ended by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)),
                  ")");
  return concat("ended with code ", WEXITSTATUS(status));
}

std::string named(int rank) { return concat("rank ", rank, " on ", dist::host_name()); }

std::string last_step(const std::string& run_directory) {
  const auto lines = read_metrics(real_file_system(), run_directory + "/metrics.jsonl");
  if (lines.empty() || lines.back().at("step") == 0) return "before a step was complete";
  return concat("after step ", lines.back().at("step").get<std::int64_t>());
}

}  // namespace

LaunchedWork launched_run(const std::string& run_directory) {
  return {.when = [run_directory] { return last_step(run_directory); },
          .goes_on =
              [run_directory] {
                return CheckpointStore(real_file_system(), run_directory).steps().empty()
                           ? "no checkpoint was saved yet, so the run begins anew with --resume"
                           : "the run goes on from its last checkpoint with --resume, with any "
                             "number of processes";
              }};
}

void check_one_launcher(int processes, const dist::Identity& identity) {
  PENSTOCK_CHECK(processes == 0 || identity.size == 1, "--processes beside ", identity.source,
                 ": this is one of several processes already; leave one of the two away");
}

void check_each_can_read(const std::string& path, int processes, const std::string& what) {
  PENSTOCK_CHECK(std::filesystem::exists(path), path, ": cannot be opened; check the path");
  PENSTOCK_CHECK(std::filesystem::is_regular_file(path), path, " is no file, and each of the ",
                 processes, " processes reads the ", what, "; write it to a file");
}

int launch_processes(int processes, const LaunchedWork& work) {
  check_waiting_times();  // else each rank would report them
  Launch launch(processes);
  launch.wait();
  const auto& children = launch.children();
  const std::string resume = work.goes_on();
  if (const auto rank = launch.dead())
    fail(named(*rank), " ", end_of(children[static_cast<std::size_t>(*rank)].status), " ",
         work.when(), "; the other processes were ended too; ", resume);
  if (const auto rank = launch.halted())
    fail(named(*rank), " was stopped by a signal ", work.when(),
         " and was ended; the other processes were ended too; ", resume);
  if (const auto rank = launch.stuck())
    fail(named(*rank), " did not answer ", work.when(), " and was ended; ", resume);
  if (launch.ended_before_it_began()) {
    std::fprintf(stderr, "interrupted; %s\n", resume.c_str());
    return 130;
  }
  if (launch.interrupted()) {
    if (!launch.told_how_to_go_on())
      std::fprintf(stderr, "interrupted before all processes were done; %s\n", resume.c_str());
    return 130;
  }
  const int first = code_of(children.front());
  if (first != kLostRankCode) return first;
  for (const Child& child : children)
    if (code_of(child) != kLostRankCode) return 1;  // the rank reported why
  fail("the ", processes, " processes lost each other ", work.when(), "; ", resume);
}

}  // namespace penstock
