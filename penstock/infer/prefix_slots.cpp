#include "penstock/infer/prefix_slots.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Number of reusable tokens that are worth the wait for another prompt's reading.
constexpr std::int64_t kWorthWaiting = 32;

std::int64_t common(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

PrefixSlots::PrefixSlots(std::int64_t slots) {
  PENSTOCK_CHECK(slots > 0, "a cache of ", slots, " sequences holds nothing");
  slots_.resize(static_cast<std::size_t>(slots));
}

std::int64_t PrefixSlots::oldest_besides(std::int64_t source) const {
  std::int64_t best = -1;
  for (std::int64_t i = 0; i < std::ssize(slots_); ++i)
    if (!at(i).used && i != source && (best < 0 || at(i).last_use < at(best).last_use)) best = i;
  return best;
}

std::int64_t PrefixSlots::reusable(const Slot& slot, std::span<const TokenId> prompt,
                                   std::int64_t likeliest) {
  // The last token is always read, because the logits after it are needed.
  if (likeliest < 0) return common(prompt.first(prompt.size() - 1), slot.tokens);
  if (slot.likeliest < likeliest) return 0;
  // Reading the last common token gives the logits that score the token behind it.
  const std::int64_t before_last = common(prompt, slot.tokens) - 1;
  return std::max<std::int64_t>(0, std::min(before_last, std::ssize(slot.scores)));
}

std::optional<PrefixSlots::Taken> PrefixSlots::take(std::span<const TokenId> prompt,
                                                    const RoutingChoice& choice,
                                                    std::int64_t likeliest) {
  PENSTOCK_ASSERT(!prompt.empty());
  const auto beginning = prompt.first(prompt.size() - 1);
  std::int64_t source = -1, reused = 0, expected = 0;
  for (std::int64_t i = 0; i < std::ssize(slots_); ++i) {
    if (at(i).choice != choice) continue;
    const std::int64_t have = reusable(at(i), prompt, likeliest);
    // Of equal slots, prefers one that is not in use: the text may continue in it.
    if (have > reused || (have == reused && have > 0 && at(source).used && !at(i).used)) {
      source = i;
      reused = have;
    }
    if (likeliest < 0 || (at(i).scoring && at(i).likeliest >= likeliest))
      expected = std::max(expected, common(beginning, at(i).planned));
  }
  if (expected >= reused + kWorthWaiting) return std::nullopt;
  const bool goes_on = source >= 0 && !at(source).used && reused == std::ssize(at(source).tokens);
  std::int64_t slot = goes_on ? source : oldest_besides(source);
  if (slot < 0 && source >= 0 && !at(source).used) slot = source;  // the only free slot
  if (slot < 0) return std::nullopt;
  if (source >= 0) at(source).last_use = ++clock_;
  Slot& taken = at(slot);
  const Slot& giver = at(source < 0 ? slot : source);
  // Without scores, token `reused` may differ from the giver's, and then has another score.
  const std::int64_t valid = std::max<std::int64_t>(0, likeliest < 0 ? reused - 1 : reused);
  const auto end = giver.scores.begin() + std::min(valid, std::ssize(giver.scores));
  std::vector<TokenScore> scores(giver.scores.begin(), end);
  taken.likeliest = likeliest < 0 ? giver.likeliest : likeliest;
  taken.scores = std::move(scores);
  taken.scoring = likeliest >= 0;
  taken.used = true;
  taken.choice = choice;
  taken.tokens.assign(prompt.begin(), prompt.begin() + reused);
  taken.planned.assign(prompt.begin(), prompt.end());
  return Taken{.slot = slot, .reused = reused, .from = source < 0 ? slot : source};
}

void PrefixSlots::add(std::int64_t slot, std::span<const TokenId> tokens) {
  Slot& own = at(slot);
  PENSTOCK_ASSERT(own.used);
  own.tokens.insert(own.tokens.end(), tokens.begin(), tokens.end());
  if (own.tokens.size() >= own.planned.size()) own.planned.clear();
}

void PrefixSlots::add_scores(std::int64_t slot, std::span<const TokenScore> scores) {
  Slot& own = at(slot);
  PENSTOCK_ASSERT(own.used && own.scoring);
  own.scores.insert(own.scores.end(), scores.begin(), scores.end());
}

void PrefixSlots::release(std::int64_t slot) {
  Slot& own = at(slot);
  PENSTOCK_ASSERT(own.used);
  own.used = false;
  own.planned.clear();
  own.scoring = false;
  own.last_use = ++clock_;
}

std::int64_t PrefixSlots::in_use() const {
  return std::ranges::count_if(slots_, [](const Slot& slot) { return slot.used; });
}

std::int64_t PrefixSlots::kept_tokens() const {
  std::int64_t out = 0;
  for (const Slot& slot : slots_)
    if (!slot.used) out += std::ssize(slot.tokens);
  return out;
}

}  // namespace penstock
