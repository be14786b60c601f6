#include "penstock/ops/cpu/work_shares.h"

#include "penstock/base/error.h"

namespace penstock::ops::cpu {
namespace {

struct Range {
  std::uint64_t begin, end;
};

std::uint64_t packed(const Range& range) { return range.end << 32 | range.begin; }
Range unpacked(std::uint64_t word) { return {word & 0xffffffffu, word >> 32}; }
std::uint64_t size(const Range& range) { return range.end - range.begin; }

/// Takes the first or the last item of a share; none where the share is empty.
std::optional<std::int64_t> take(std::atomic<std::uint64_t>& left, bool first) {
  std::uint64_t word = left.load(std::memory_order_relaxed);
  for (;;) {
    Range range = unpacked(word);
    if (size(range) == 0) return std::nullopt;
    const std::uint64_t item = first ? range.begin++ : --range.end;
    if (left.compare_exchange_weak(word, packed(range), std::memory_order_relaxed))
      return static_cast<std::int64_t>(item);
  }
}

}  // namespace

WorkShares::WorkShares(std::int64_t n, int threads) : shares_(static_cast<std::size_t>(threads)) {
  PENSTOCK_ASSERT(n >= 0 && n < std::int64_t{1} << 32, n);
  const auto items = static_cast<std::uint64_t>(n), count = shares_.size();
  for (std::uint64_t i = 0; i < count; ++i)
    shares_[i].left = packed({items * i / count, items * (i + 1) / count});
}

std::optional<std::int64_t> WorkShares::next(int thread) {
  if (const auto own = take(shares_[static_cast<std::size_t>(thread)].left, true)) return own;
  for (;;) {
    Share* largest = nullptr;
    std::uint64_t most = 0;
    for (Share& share : shares_) {
      const std::uint64_t left = size(unpacked(share.left.load(std::memory_order_relaxed)));
      if (left > most) most = left, largest = &share;
    }
    if (!largest) return std::nullopt;
    if (const auto other = take(largest->left, false)) return other;
  }
}

}  // namespace penstock::ops::cpu
