// A thread that runs jobs one after the other, beside the thread that gives them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock {

/// One thread gives jobs and waits. Each job runs with one OpenMP thread. The destructor waits for
/// the running job and drops the rest.
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background();

  /// Waits until fewer than `most` jobs are left, then appends a job.
  void add(std::function<void()> job, std::size_t most = SIZE_MAX);
  /// Waits until all jobs are done. Rethrows a job's exception; later jobs were dropped.
  void wait();
  /// Whether wait() would return at once. Rethrows as wait() does, and wait() will do so again.
  bool done();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // the first is at work
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;  // started by the first job
};

}  // namespace penstock
