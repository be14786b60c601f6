#include "penstock/finetune/text_order.h"

#include <algorithm>
#include <numeric>

#include "penstock/base/error.h"
#include "penstock/base/random.h"

namespace penstock {
namespace {

// Streams of an epoch's seed.
constexpr std::uint64_t kShuffleTexts = 0, kShuffleBatches = 1;

std::vector<TextIndices> cut(const TextIndices& texts, std::size_t most) {
  std::vector<TextIndices> out;
  for (std::size_t i = 0; i < texts.size(); i += most)
    out.emplace_back(texts.begin() + static_cast<std::ptrdiff_t>(i),
                     texts.begin() + static_cast<std::ptrdiff_t>(std::min(texts.size(), i + most)));
  return out;
}

}  // namespace

TextOrder::TextOrder(const EncodedSet& set, std::int64_t batch, std::int64_t pool,
                     std::uint64_t seed, bool drop_last)
    : lengths_(set.lengths()),
      batch_(static_cast<std::size_t>(batch)),
      pool_(std::min(static_cast<std::size_t>(pool), lengths_.size())),  // no product overflows
      seed_(seed) {
  PENSTOCK_ASSERT(!lengths_.empty() && batch >= 1 && pool >= 1);
  batches_ = drop_last ? set.size() / batch : (set.size() + batch - 1) / batch;
  PENSTOCK_CHECK(batches_ > 0, "batch = ", batch, " is more than the ", set.size(),
                 " training texts, and protocol \"authors\" leaves out what fills no batch");
}

void TextOrder::plan(std::int64_t epoch) {
  const std::uint64_t seed = random_bits(seed_, 0, static_cast<std::uint64_t>(epoch));
  TextIndices order(lengths_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, seed, kShuffleTexts);
  if (pool_ == 1) {
    plan_ = cut(order, batch_);
  } else {
    plan_.clear();
    for (auto& pool : cut(order, batch_ * pool_)) {
      std::ranges::stable_sort(pool, {}, [&](std::size_t i) { return lengths_[i]; });
      for (auto& batch : cut(pool, batch_)) plan_.push_back(std::move(batch));
    }
    shuffle(plan_, seed, kShuffleBatches);
  }
  plan_.resize(static_cast<std::size_t>(batches_));  // drops a smaller last batch
  epoch_ = epoch;
}

const TextIndices& TextOrder::at(std::int64_t step) {
  if (const std::int64_t epoch = step / batches_; epoch != epoch_) plan(epoch);
  return plan_[static_cast<std::size_t>(step % batches_)];
}

}  // namespace penstock
