// The background thread of Prefetcher.
#include "penstock/data/corpus/prefetcher.h"

#include <algorithm>
#include <utility>

namespace penstock {

Prefetcher::Prefetcher(Make make, std::int64_t first_step, std::size_t depth)
    : make_(std::move(make)),
      depth_(std::max<std::size_t>(1, depth)),
      thread_([this, first_step] { work(first_step); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch Prefetcher::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || error_; });
  if (ready_.empty()) std::rethrow_exception(error_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Prefetcher::work(std::int64_t step) {
  for (;; ++step) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || ready_.size() < depth_; });
      if (stop_) return;
    }
    try {
      Batch batch = make_(step);
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(batch));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    changed_.notify_all();
    // Only this thread writes error_, so reading it here needs no lock.
    if (error_) return;
  }
}

}  // namespace penstock
