#include "penstock/train/background.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <chrono>
#include <utility>

namespace penstock {
namespace {

/// The time between two calls during a wait.
constexpr std::chrono::milliseconds kPause(200);

}  // namespace

Background::~Background() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Background::add(std::function<void()> job, std::size_t most) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return jobs_.size() < most; });
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
}

void Background::wait(const std::function<void()>& meanwhile) {
  std::unique_lock lock(mutex_);
  const auto idle = [this] { return jobs_.empty(); };
  while (meanwhile && !changed_.wait_for(lock, kPause, idle)) {
    lock.unlock();
    meanwhile();
    lock.lock();
  }
  changed_.wait(lock, idle);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

bool Background::done() {
  const std::scoped_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return jobs_.empty();
}

void Background::work() {
  at::internal::lazy_init_num_threads();  // else ATen would later set the number again
  omp_set_num_threads(1);                 // for this thread alone
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    std::function<void()> job;
    if (!failure_) job = std::move(jobs_.front());
    lock.unlock();
    std::exception_ptr failure;
    try {
      if (job) job();
      job = nullptr;  // frees what the job holds before anybody is notified
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    jobs_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace penstock
