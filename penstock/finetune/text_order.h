// Which texts make a step: a pure function of seed and step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/finetune/texts.h"

namespace penstock {

using TextIndices = std::vector<std::size_t>;

/// The texts of an epoch as batches: shuffled, cut into pools of so many batches, each pool sorted
/// by length and cut into batches, whose order is shuffled again. A pool of one batch leaves the
/// shuffle as it is. Each text once; the last batch may be smaller.
class TextOrder {
 public:
  /// REQUIRES: a text, batch ≥ 1, pool ≥ 1.  @param drop_last  leaves a smaller batch out
  /// Throws Error where that leaves none.
  TextOrder(const EncodedSet& set, std::int64_t batch, std::int64_t pool, std::uint64_t seed,
            bool drop_last);
  std::int64_t batches_per_epoch() const { return batches_; }
  /// The texts of a step, counted from 0 over all epochs. Keeps the epoch last asked for.
  const TextIndices& at(std::int64_t step);

 private:
  void plan(std::int64_t epoch);

  std::vector<std::size_t> lengths_;
  std::size_t batch_, pool_;
  std::uint64_t seed_;
  std::int64_t batches_ = 0, epoch_ = -1;
  std::vector<TextIndices> plan_;
};

}  // namespace penstock
