// Divides items among the threads of a parallel region. Each thread takes items one by one from its
// own share. It starts no region and does no work.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::ops::cpu {

/// Items [0, n), cut into one share of neighbouring items for each thread. A thread takes its share
/// from the front, so it reads neighbouring memory and the processor fetches ahead. A thread whose
/// share is used up takes the last item of the largest share that is left, because memory serves
/// threads unevenly. Each item is taken once.
/// REQUIRES: 0 ≤ n < 2³², threads ≥ 1.
class WorkShares {
 public:
  WorkShares(std::int64_t n, int threads);

  /// The next item for thread `thread` in [0, threads); none if no item is left. Threads may call
  /// it at once.
  std::optional<std::int64_t> next(int thread);

 private:
  /// The items [begin, end) that are left, in one word, so that an owner and another thread cannot
  /// take the same item. A share has its own cache line.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> left;
  };
  std::vector<Share> shares_;
};

}  // namespace penstock::ops::cpu
