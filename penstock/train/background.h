// A thread that runs jobs one after the other, while the thread that adds them goes on.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock {

/// One thread adds jobs and waits for them. Each job runs with one OpenMP thread. The destructor
/// waits for the running job and drops the rest.
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background();

  /// Waits until fewer than `most` jobs are left, then appends a job.
  void add(std::function<void()> job, std::size_t most = SIZE_MAX);
  /// Waits until all jobs are done. Rethrows a job's exception; the jobs after it were dropped.
  /// @param meanwhile  called several times a second while the wait lasts
  void wait(const std::function<void()>& meanwhile = {});
  /// Whether all jobs are done. Rethrows a job's exception, and keeps it for wait().
  bool done();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // the first one is running
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;  // started by the first job
};

}  // namespace penstock
