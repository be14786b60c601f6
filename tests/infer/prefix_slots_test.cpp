// Which slot a prompt gets, and how many tokens of an earlier text it reuses.
#include "penstock/infer/prefix_slots.h"

#include <gtest/gtest.h>

#include "penstock/base/error.h"

namespace penstock::prefix_slots_test {
namespace {

using Tokens = std::vector<TokenId>;

/// Takes a slot for the prompt, reads the whole prompt into it, and then the tokens `more`.
PrefixSlots::Taken read(PrefixSlots& slots, const Tokens& prompt, const Tokens& more = {}) {
  const auto taken = slots.take(prompt).value();
  slots.add(taken.slot, std::span(prompt).subspan(static_cast<std::size_t>(taken.reused)));
  slots.add(taken.slot, more);
  return taken;
}

Tokens repeated(TokenId token, std::size_t count) { return Tokens(count, token); }

TEST(PrefixSlots, AFinishedTextGoesOnWhereItIs) {
  PrefixSlots slots(3);
  const auto first = read(slots, {1, 2, 3}, {4, 5});
  EXPECT_EQ(first.reused, 0);
  slots.release(first.slot);
  EXPECT_EQ(slots.kept_tokens(), 5);
  const auto next = slots.take(Tokens{1, 2, 3, 4, 5, 6}).value();
  EXPECT_EQ(next.slot, first.slot);
  EXPECT_EQ(next.from, first.slot);
  EXPECT_EQ(next.reused, 5);
  EXPECT_EQ(slots.kept_tokens(), 0);
}

TEST(PrefixSlots, ABeginningIsCopiedAndStays) {
  PrefixSlots slots(3);
  const auto first = read(slots, {1, 2, 3, 4});
  slots.release(first.slot);
  const auto second = slots.take(Tokens{1, 2, 9, 9}).value();
  EXPECT_EQ(second.reused, 2);
  EXPECT_EQ(second.from, first.slot);
  EXPECT_NE(second.slot, first.slot);
  EXPECT_EQ(slots.tokens(first.slot).size(), 4u);
}

TEST(PrefixSlots, ARunningTextLendsItsBeginning) {
  PrefixSlots slots(2);
  const auto first = read(slots, {1, 2, 3}, {7});
  const auto second = slots.take(Tokens{1, 2, 3, 7, 8}).value();
  EXPECT_EQ(second.reused, 4);
  EXPECT_EQ(second.from, first.slot);
  EXPECT_NE(second.slot, first.slot);
  EXPECT_FALSE(slots.take(Tokens{5}).has_value());
}

TEST(PrefixSlots, WhatWasReadWithAnotherRoutingIsOfNoUse) {
  PrefixSlots slots(3);
  const auto first = slots.take(Tokens{1, 2, 3}, {.k = 2}).value();
  slots.add(first.slot, Tokens{1, 2, 3});
  slots.release(first.slot);
  EXPECT_EQ(slots.take(Tokens{1, 2, 3, 4}).value().reused, 0);
  EXPECT_EQ(slots.take(Tokens{1, 2, 3, 4}, {.k = 2}).value().reused, 3);
}

TEST(PrefixSlots, TheLastTokenIsAlwaysRead) {
  PrefixSlots slots(2);
  slots.release(read(slots, {1, 2, 3}).slot);
  const auto again = slots.take(Tokens{1, 2, 3}).value();
  EXPECT_EQ(again.reused, 2);
}

TEST(PrefixSlots, TheLongestUnusedGivesWay) {
  PrefixSlots slots(3);
  const auto a = read(slots, {1, 1}), b = read(slots, {2, 2}), c = read(slots, {3, 3});
  slots.release(b.slot);
  slots.release(a.slot);
  slots.release(c.slot);
  const auto other = read(slots, {9});
  EXPECT_EQ(other.slot, b.slot);
  // Lending its beginning counts as a use of a slot.
  slots.release(read(slots, {1, 8}).slot);
  EXPECT_EQ(slots.tokens(a.slot)[1], 1);
}

TEST(PrefixSlots, TheOnlyFreeSlotIsCut) {
  PrefixSlots slots(1);
  slots.release(read(slots, {1, 2, 3, 4}).slot);
  const auto next = slots.take(Tokens{1, 2, 9}).value();
  EXPECT_EQ(next.slot, 0);
  EXPECT_EQ(next.from, 0);
  EXPECT_EQ(next.reused, 2);
  EXPECT_EQ(slots.tokens(0).size(), 2u);
}

TEST(PrefixSlots, ALongBeginningThatIsBeingReadIsWaitedFor) {
  PrefixSlots slots(4);
  Tokens prompt = repeated(7, 100);
  const auto first = slots.take(prompt).value();
  EXPECT_FALSE(slots.take(prompt).has_value());
  EXPECT_TRUE(slots.take(repeated(7, 20)).has_value());  // too short to wait for
  slots.add(first.slot, prompt);
  EXPECT_EQ(slots.take(prompt).value().reused, 99);
  // A text that ends before its prompt is read does not make other texts wait.
  PrefixSlots others(2);
  const auto cut = others.take(prompt).value();
  others.release(cut.slot);
  EXPECT_EQ(others.take(prompt).value().reused, 0);
}

TEST(PrefixSlots, MistakesAreNoticed) {
  EXPECT_THROW(PrefixSlots(0), Error);
  PrefixSlots slots(1);
  EXPECT_THROW(slots.release(0), AssertionError);
  EXPECT_THROW(slots.add(0, Tokens{1}), AssertionError);
}

}  // namespace
}  // namespace penstock::prefix_slots_test
