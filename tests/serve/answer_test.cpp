// The events between the thread that writes texts and a client that reads slowly.
#include "penstock/serve/answer.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "penstock/data/token_id.h"

namespace penstock::serve {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kNoLimit = 1 << 30;

AnswerEvent token_event(TokenId id) { return {.token = GeneratedToken{.token = id, .piece = "a"}}; }

TEST(Answer, ATakeHasTheOldestEvents) {
  Answer answer(1, kNoLimit);
  for (TokenId id = 0; id < 100; ++id) EXPECT_TRUE(answer.add(token_event(id)));
  answer.add({.finish = Finish::length});
  TokenId next = 0;
  std::size_t takes = 0;
  for (; !answer.over(); ++takes)
    for (const AnswerEvent& event : answer.take(0ms, 10 * sizeof(AnswerEvent)))
      EXPECT_EQ(event.token ? event.token->token : 100, next++);
  EXPECT_EQ(next, 101);
  EXPECT_GE(takes, 10u);
  EXPECT_FALSE(answer.has_events());
  EXPECT_EQ(answer.take(0ms, 1).size(), 0u);
}

TEST(Answer, ATakeHasAnEventHoweverLargeItIs) {
  Answer answer(1, kNoLimit);
  AnswerEvent large = token_event(1);
  large.token->routing = {{.logits = std::vector<float>(1000)}};
  answer.add(std::move(large));
  answer.add(token_event(2));
  EXPECT_EQ(answer.take(0ms, 1).size(), 1u);
  EXPECT_TRUE(answer.has_events());
}

TEST(Answer, EventsThatAreNotTakenHaveALimit) {
  constexpr std::size_t kLogits = 10'000;
  Answer answer(1, 5 * kLogits * sizeof(float));
  const auto add = [&] {
    AnswerEvent event = token_event(1);
    event.token->routing = {{.logits = std::vector<float>(kLogits)}};
    return answer.add(std::move(event));
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(add());
  EXPECT_FALSE(add());
  EXPECT_FALSE(add());
  EXPECT_EQ(answer.take(0ms, kNoLimit).size(), 6u);  // none is lost
  EXPECT_TRUE(add());
}

}  // namespace
}  // namespace penstock::serve
