// Prepares the next batches on a background thread while the current one is trained on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "penstock/data/corpus/batches.h"

namespace penstock {

/// Calls make(first), make(first + 1), ... ahead of next(), at most `depth` batches ahead. What
/// next() returns does not depend on timing. One thread may call next(). The destructor waits for
/// the batch that is being made.
class Prefetcher {
 public:
  using Make = std::function<Batch(std::int64_t step)>;
  Prefetcher(Make make, std::int64_t first_step, std::size_t depth = 2);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();

  /// The next step's batch. Rethrows the exception that `make` threw for it, in every later call
  /// too.
  Batch next();

 private:
  void work(std::int64_t step);

  Make make_;
  std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace penstock
