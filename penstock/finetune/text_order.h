// Chooses the texts of each step, as a pure function of seed and step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/finetune/texts.h"

namespace penstock {

using TextIndices = std::vector<std::size_t>;

/// Divides the texts of an epoch into batches. It shuffles the texts and cuts them into pools of
/// `pool` batches. It sorts each pool by length, cuts it into batches and shuffles the order of all
/// batches. Pools of one batch are not sorted. Each text occurs once; one batch may be smaller.
class TextOrder {
 public:
  /// @param drop_last  leaves out one batch of each epoch if the texts do not fill all batches
  /// REQUIRES: at least one text, batch ≥ 1, pool ≥ 1. Throws Error if no batch is left.
  TextOrder(const EncodedSet& set, std::int64_t batch, std::int64_t pool, std::uint64_t seed,
            bool drop_last);
  std::int64_t batches_per_epoch() const { return batches_; }
  /// The texts of a step; steps count from 0 over all epochs. Caches the last epoch.
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
