#include "penstock/cli/study_jobs.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>
#include <deque>
#include <map>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/cli/processes/child_process.h"

namespace penstock {
namespace {

std::string named(const study::RunKey& run) { return concat(run.first, ", seed ", run.second); }

class Pool {
 public:
  Pool(const StudyJobs& options, const std::vector<study::RunToTrain>& runs)
      : options_(options), all_(runs.size()) {
    for (const study::RunToTrain& run : runs) waiting_.push_back(run.key);
  }

  bool finish() {
    while (!running_.empty() || (!waiting_.empty() && goes_on())) {
      while (goes_on() && !waiting_.empty() && std::ssize(running_) < options_.jobs) start();
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

  void start() {
    const study::RunKey run = waiting_.front();
    waiting_.pop_front();
    auto command = options_.command;
    command.insert(command.end(), {"--only", concat(run.first, ":", run.second)});
    say(fmt::format("[{}/{}] {}: begun", all_ - waiting_.size(), all_, named(run)));
    running_[start_program(std::move(command), own_environment(), signals_)] = run;
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
    if (code == 0) return say(named(run) + ": done");
    if (code == 130 || interrupted_) {
      interrupted_ = true;
      return;
    }
    if (!failed_.empty()) return;
    failed_ = code > 0 ? concat("the run of ", named(run), " failed, as said above")
                       : concat("the run of ", named(run), " was ended by signal ",
                                WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")");
    failed_ += "; the same command goes on with what is missing";
  }

  const StudyJobs& options_;
  std::deque<study::RunKey> waiting_;
  std::size_t all_;
  WaitedSignals signals_;
  std::map<pid_t, study::RunKey> running_;
  std::string failed_;  // the message about the first failed run
  bool interrupted_ = false;
};

}  // namespace

bool train_side_by_side(const StudyJobs& options, const std::vector<study::RunToTrain>& runs) {
  return Pool(options, runs).finish();
}

}  // namespace penstock
