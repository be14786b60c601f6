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

TEST(PrefixSlots, ForScoresOnlyScoredTokensAreReused) {
  PrefixSlots slots(4);
  const Tokens prompt{1, 2, 3, 4, 5};
  const auto first = slots.take(prompt, {}, 2).value();
  slots.add(first.slot, prompt);
  slots.add_scores(first.slot, std::vector<TokenScore>{{-1}, {-2}, {-3}, {-4}});
  slots.release(first.slot);
  const auto again = slots.take(prompt, {}, 2).value();
  EXPECT_EQ(again.reused, 4);
  ASSERT_EQ(slots.scores(again.slot).size(), 4u);
  EXPECT_EQ(slots.scores(again.slot)[3].logprob, -4);
  slots.release(again.slot);
  // Token 2 is read again, because the logits after it give the score of the token 9.
  const auto branch = slots.take(Tokens{1, 2, 3, 9, 9}, {}, 1).value();
  EXPECT_EQ(branch.reused, 2);
  ASSERT_EQ(slots.scores(branch.slot).size(), 2u);
  EXPECT_EQ(slots.scores(branch.slot)[1].logprob, -2);
  slots.release(branch.slot);
  EXPECT_EQ(slots.take(prompt, {}, 3).value().reused, 0);  // scores with too few tokens
}

TEST(PrefixSlots, ATextWithoutScoresKeepsThoseOfItsBeginning) {
  PrefixSlots slots(2);
  const Tokens prompt{1, 2, 3, 4, 5};
  const auto first = slots.take(prompt, {}, 0).value();
  slots.add(first.slot, prompt);
  slots.add_scores(first.slot, std::vector<TokenScore>{{-1}, {-2}, {-3}, {-4}});
  slots.release(first.slot);
  const auto plain = slots.take(Tokens{1, 2, 3, 9, 9}).value();
  EXPECT_EQ(plain.reused, 3);
  EXPECT_EQ(slots.scores(plain.slot).size(), 2u);  // the third is that of another token
  EXPECT_THROW(slots.add_scores(plain.slot, std::vector<TokenScore>{{-5}}), AssertionError);
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
