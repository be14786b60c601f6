// Answers that are written in pieces, and the room that they share.
#include "penstock/serve/piecewise_reply.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/serve/answer_room.h"

namespace penstock::serve {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::vector<JsonList> two_lists(std::int64_t count) {
  std::vector<JsonList> out;
  out.push_back({.before = "{\"a\":[", .count = count, .element = [](std::int64_t i) {
                   return std::to_string(i);
                 }});
  out.push_back({.before = "],\"b\":[", .count = 2, .element = [](std::int64_t) {
                   return std::string("\"x\"");
                 }});
  return out;
}

TEST(PiecewiseReply, ListsComeInTheirOrder) {
  for (const auto& [count, expected] : {std::pair(0, R"({"a":[],"b":["x","x"]})"),
                                        std::pair(3, R"({"a":[0,1,2],"b":["x","x"]})")}) {
    PiecewiseReply reply(two_lists(count), "]}", Clock::now() + 1h);
    std::string out = ">";
    EXPECT_FALSE(reply.next(out, 0ms));
    EXPECT_EQ(out, std::string(">") + expected);
  }
}

TEST(PiecewiseReply, ALongAnswerComesInPieces) {
  PiecewiseReply reply(two_lists(50000), "]}", Clock::now() + 1h);
  std::string expected = "{\"a\":[0", all;
  for (int i = 1; i < 50000; ++i) expected += "," + std::to_string(i);
  expected += R"(],"b":["x","x"]})";
  int pieces = 0;
  for (bool more = true; more; ++pieces) {
    std::string piece;
    more = reply.next(piece, 0ms);
    EXPECT_LT(piece.size(), 66000u);
    all += piece;
  }
  EXPECT_EQ(all, expected);
  EXPECT_EQ(pieces, 5);  // 288,911 bytes
}

TEST(PiecewiseReply, EndsAtItsDeadline) {
  PiecewiseReply reply(two_lists(3), "]}", Clock::now() - 1ms);
  std::string out;
  EXPECT_THROW(reply.next(out, 0ms), Error);
}

TEST(AnswerRoom, IsSharedUntilAnAnswerEnds) {
  AnswerRoom room(10);
  auto first = room.take(6);
  const auto second = room.take(4);
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(room.take(1));
  PiecewiseReply(two_lists(1), "]}", Clock::now() + 1h, std::exchange(first, nullptr));
  EXPECT_TRUE(room.take(6));
}

TEST(AnswerRoom, AnAnswerThatIsAloneGetsAnySize) {
  AnswerRoom room(10);
  {
    const auto large = room.take(100);
    EXPECT_TRUE(large);
    EXPECT_FALSE(room.take(1));
  }
  EXPECT_TRUE(room.take(1));
}

}  // namespace
}  // namespace penstock::serve
