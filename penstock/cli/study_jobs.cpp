#include "penstock/cli/study_jobs.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <span>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/cli/processes/child_process.h"
#include "penstock/study/runs/run_queue.h"

namespace penstock {
namespace {

class Pool {
 public:
  Pool(const StudyJobs& options, const std::vector<study::RunToTrain>& runs,
       const study::SideBySide& study)
      : options_(options), study_(study), queue_(runs), all_(std::ssize(runs)) {}

  bool finish() {
    while (!running_.empty() || (queue_.waiting() > 0 && goes_on())) {
      while (goes_on() && std::ssize(running_) < options_.jobs && start_next()) continue;
      const int signal = signals_.next();
      if (signal != 0 && signal != SIGCHLD) {
        interrupted_ = true;
        for (const auto& [process, run] : running_) ::kill(process, signal);
      }
      reap();
    }
    PENSTOCK_CHECK(failed_.empty() || interrupted_, failed_);
    return !interrupted_;
  }

 private:
  bool goes_on() const { return !interrupted_ && failed_.empty(); }

  void say(const std::string& line) const { print_line(options_.progress, line); }

  /// Starts the next run, or leaves it out. Returns false if no run can begin now.
  bool start_next() {
    const auto next = queue_.next();
    if (!next) return false;
    const study::RunKey& run = next->key;
    if (!study_.may_begin(run)) {
      queue_.ended(run);
      return true;
    }
    auto command = options_.command;
    command.insert(command.end(), {"--only", concat(run.first, ":", run.second)});
    say(fmt::format("[{}/{}] {}: begun", all_ - queue_.waiting(), all_, study::named(run)));
    running_[start_program(std::move(command), own_environment(), signals_)] = run;
    return true;
  }

  void reap() {
    for (auto child = running_.begin(); child != running_.end();) {
      int status = 0;
      if (::waitpid(child->first, &status, WNOHANG) != child->first) {
        ++child;
        continue;
      }
      end(child->second, status);
      child = running_.erase(child);
    }
  }

  void end(const study::RunKey& run, int status) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 0) {
      say(study::named(run) + ": done");
      queue_.ended(run);
      return publish(run);
    }
    if (code == 130 || interrupted_) {
      interrupted_ = true;
      return;
    }
    if (!failed_.empty()) return;
    failed_ = code > 0 ? concat("the run of ", study::named(run), " failed, as said above")
                       : concat("the run of ", study::named(run), " was ended by signal ",
                                WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")");
    failed_ += "; the same command goes on with what is missing";
  }

  /// An error ends the study when the runs that have begun have ended.
  void publish(const study::RunKey& run) {
    try {
      study_.ended(std::span(&run, 1));
    } catch (const std::exception& error) {
      if (failed_.empty()) failed_ = error.what();
    }
  }

  const StudyJobs& options_;
  const study::SideBySide& study_;
  study::RunQueue queue_;
  std::int64_t all_;
  WaitedSignals signals_;
  std::map<pid_t, study::RunKey> running_;
  std::string failed_;  // the message about the first failure
  bool interrupted_ = false;
};

}  // namespace

bool train_side_by_side(const StudyJobs& options, const std::vector<study::RunToTrain>& runs,
                        const study::SideBySide& study) {
  return Pool(options, runs, study).finish();
}

}  // namespace penstock
