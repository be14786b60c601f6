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

std::optional<PrefixSlots::Taken> PrefixSlots::take(std::span<const TokenId> prompt,
                                                    const RoutingChoice& choice) {
  PENSTOCK_ASSERT(!prompt.empty());
  // The last token is always read, because the logits after it are needed.
  const auto beginning = prompt.first(prompt.size() - 1);
  std::int64_t source = -1, reused = 0, expected = 0;
  for (std::int64_t i = 0; i < std::ssize(slots_); ++i) {
    if (at(i).choice != choice) continue;
    const std::int64_t have = common(beginning, at(i).tokens);
    // Of equal slots, prefers one that is not in use: the text may continue in it.
    if (have > reused || (have == reused && have > 0 && at(source).used && !at(i).used)) {
      source = i;
      reused = have;
    }
    expected = std::max(expected, common(beginning, at(i).planned));
  }
  if (expected >= reused + kWorthWaiting) return std::nullopt;
  const bool goes_on = source >= 0 && !at(source).used && reused == std::ssize(at(source).tokens);
  std::int64_t slot = goes_on ? source : oldest_besides(source);
  if (slot < 0 && source >= 0 && !at(source).used) slot = source;  // the only free slot
  if (slot < 0) return std::nullopt;
  if (source >= 0) at(source).last_use = ++clock_;
  Slot& taken = at(slot);
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

void PrefixSlots::release(std::int64_t slot) {
  Slot& own = at(slot);
  PENSTOCK_ASSERT(own.used);
  own.used = false;
  own.planned.clear();
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
