// Makes the next batches on a background thread during training on the current one.
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

/// Calls make(first), make(first + 1), ... ahead of next(), at most `depth` batches ahead. The
/// results of next() do not depend on timing. Only one thread may call next(). The destructor waits
/// for the batch that is being made.
class Prefetcher {
 public:
  using Make = std::function<Batch(std::int64_t step)>;
  Prefetcher(Make make, std::int64_t first_step, std::size_t depth = 2);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();

  /// The next step's batch. Rethrows the exception that `make` threw for it, also in every later
  /// call.
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
