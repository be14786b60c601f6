#include "penstock/data/corpus/mixture.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/data/corpus/permutation.h"

namespace penstock {
namespace {

constexpr double kLargestRatio = 1e6;

}  // namespace

MixtureOrder::MixtureOrder(const std::vector<double>& weights, std::uint64_t seed) : seed_(seed) {
  PENSTOCK_ASSERT(!weights.empty());
  for (const double weight : weights)
    PENSTOCK_CHECK(weight > 0 && std::isfinite(weight), "data.corpora: a weight is ", weight,
                   "; give each corpus a positive one, or leave the corpus out");
  const auto [least, most] = std::minmax_element(weights.begin(), weights.end());
  PENSTOCK_CHECK(*most / *least <= kLargestRatio, "data.corpora: the weights ", *least, " and ",
                 *most, " differ by more than a million times; leave the rare corpus out");
  double sum = 0;
  bounds_.push_back(0);
  for (const double weight : weights) bounds_.push_back(sum += weight);
  for (double& bound : bounds_) bound /= sum;
  block_ = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::ceil(2 * sum / *least))));
}

std::int64_t MixtureOrder::taken(std::size_t corpora, std::int64_t end) const {
  if (corpora + 1 == bounds_.size()) return end;
  return static_cast<std::int64_t>(std::floor(bounds_[corpora] * static_cast<double>(end)));
}

MixtureOrder::Place MixtureOrder::operator()(std::int64_t sequence) const {
  if (bounds_.size() == 2) return {.corpus = 0, .index = sequence};
  const std::int64_t block = sequence / block_, begin = block * block_, end = begin + block_;
  const Permutation order(static_cast<std::uint64_t>(block_), seed_,
                          static_cast<std::uint64_t>(block));
  const auto slot = static_cast<std::int64_t>(order(static_cast<std::uint64_t>(sequence - begin)));
  // The slots of a block are divided among the corpora in their order. The number of slots of a
  // corpus is the number of its sequences in the block.
  std::size_t below = 0, above = bounds_.size() - 1;
  const auto first_slot = [&](std::size_t corpus) {
    return taken(corpus, end) - taken(corpus, begin);
  };
  while (above - below > 1) {
    const std::size_t middle = (below + above) / 2;
    (first_slot(middle) <= slot ? below : above) = middle;
  }
  const std::int64_t before = taken(below + 1, begin) - taken(below, begin);
  return {.corpus = below, .index = before + slot - first_slot(below)};
}

}  // namespace penstock
