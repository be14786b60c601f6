// Requests as tokens: the start of the scored part, BOS, and the tokens that a short window leaves
// out.
#include "penstock/tasks/encode.h"

#include <gtest/gtest.h>

#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/data/vocabulary.h"
#include "tests/tasks/support.h"

namespace penstock::tasks {
namespace {

using Ids = std::vector<TokenId>;

Ids bytes(const std::string& text, const Ids& before = {}) {
  Ids out = before;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

/// A tokenizer of bytes, with control pieces for a text's beginning and end if `has_bos` is true.
std::shared_ptr<const Tokenizer> byte_tokenizer(bool add_bos, bool has_bos = true) {
  Vocabulary out{.kind = Vocabulary::Kind::kSentencePieceBpe, .add_space_prefix = false};
  for (int b = 0; b < 256; ++b) {
    constexpr const char* digits = "0123456789ABCDEF";
    out.pieces.push_back({.text = concat("<0x", digits[b / 16], digits[b % 16], ">"),
                          .type = Vocabulary::PieceType::kByte});
  }
  out.pieces.push_back({.text = "<unk>", .type = Vocabulary::PieceType::kUnknown});
  out.unknown = 256;
  if (has_bos) {
    out.pieces.push_back({.text = "<s>", .type = Vocabulary::PieceType::kControl});
    out.pieces.push_back({.text = "</s>", .type = Vocabulary::PieceType::kControl});
    out.bos = 257;
    out.eos = 258;
  }
  out.add_bos = add_bos;
  return make_tokenizer(out);
}

TEST(LmEvalRequests, SplitWhereTheContextsTokensEnd) {
  const auto tokenizer = byte_tokenizer(false);
  const RequestEncoder encoder(*tokenizer, 100);
  EXPECT_EQ(encoder.encode({"ab", " c"}, Score::kContinuation),
            (TokenRequest{.ids = bytes("ab c"), .scored_from = 2}));
  // White space at the context's end belongs to the scored part.
  EXPECT_EQ(encoder.encode({"ab \n", "c"}, Score::kContinuation),
            (TokenRequest{.ids = bytes("ab \nc"), .scored_from = 2}));
}

TEST(LmEvalRequests, BeginWithTheBosThatTheTokenizerPutsThere) {
  const auto tokenizer = byte_tokenizer(true);
  const RequestEncoder encoder(*tokenizer, 100);
  EXPECT_EQ(encoder.encode({"ab", "c"}, Score::kContinuation),
            (TokenRequest{.ids = bytes("abc", {257}), .scored_from = 3}));
  EXPECT_EQ(encoder.encode({"", "c"}, Score::kContinuation),
            (TokenRequest{.ids = bytes("c", {257}), .scored_from = 1}));
}

TEST(LmEvalRequests, OfAnEmptyContextFollowTheBosOrElseTheEndOfText) {
  const auto with_bos = byte_tokenizer(false);
  EXPECT_EQ(RequestEncoder(*with_bos, 9).encode({"", " c"}, Score::kContinuation).ids,
            bytes(" c", {257}));
  const auto ends = make_tokenizer("bytes", {}, true);
  EXPECT_EQ(RequestEncoder(*ends, 9).encode({"", "c"}, Score::kContinuation),
            (TokenRequest{.ids = bytes("c", {ends->end_of_document()}), .scored_from = 1}));
  const auto neither = byte_tokenizer(false, false);
  EXPECT_NE(error_of([&] {
              RequestEncoder(*neither, 9).encode({"", "c"}, Score::kContinuation);
            }).find("the context is empty, and the tokenizer has no token"),
            std::string::npos);
}

TEST(LmEvalRequests, LeaveOutTheFirstTokensOfWhatIsTooLong) {
  const auto tokenizer = byte_tokenizer(true);
  const RequestEncoder encoder(*tokenizer, 4);
  EXPECT_EQ(encoder.encode({"abcdef", "gh"}, Score::kContinuation),
            (TokenRequest{.ids = bytes("defgh"), .scored_from = 3}));
  EXPECT_EQ(encoder.encode({"a", "bcde"}, Score::kContinuation),
            (TokenRequest{.ids = bytes("abcde"), .scored_from = 1}));
  EXPECT_EQ(error_of([&] {
              encoder.encode({"a", "bcdef"}, Score::kContinuation);
            }),
            "a continuation of 5 tokens is longer than the model's window of 4; give "
            "options.sequence_length = 5 or more");
}

TEST(OpenCompassRequests, AreWholeTextsCutAtTheirEnd) {
  const auto tokenizer = byte_tokenizer(true);
  const RequestEncoder encoder(*tokenizer, 6);
  EXPECT_EQ(encoder.encode({"ab\n", "c"}, Score::kWholeText),
            (TokenRequest{.ids = bytes("ab\nc", {257}), .scored_from = 1}));
  EXPECT_EQ(encoder.encode({"abcdef\n", "g"}, Score::kWholeText),
            (TokenRequest{.ids = bytes("abcde", {257}), .scored_from = 1}));
}

TEST(OpenCompassRequests, OfRestsAreScoredBehindTheContextOrBehindAsManyTokens) {
  const auto tokenizer = byte_tokenizer(true);
  const RequestEncoder encoder(*tokenizer, 20);
  EXPECT_EQ(encoder.encode({"abcde", " f"}, Score::kRest),
            (TokenRequest{.ids = bytes("abcde f", {257}), .scored_from = 6}));
  EXPECT_EQ(encoder.encode({"abcde", " f"}, Score::kRestByCount),
            (TokenRequest{.ids = bytes("abcde f", {257}), .scored_from = 2}));
}

TEST(Prompts, LeaveRoomForTheAnswer) {
  const auto tokenizer = byte_tokenizer(true);
  const RequestEncoder encoder(*tokenizer, 6);
  const Item item{.where = "rows.jsonl:7", .requests = {{"abcdef", ""}}};
  EXPECT_EQ(encoder.encode_prompt(item, TaskProtocol::kLmEval, 2), bytes("cdef"));
  EXPECT_EQ(encoder.encode_prompt(item, TaskProtocol::kOpenCompass, 2), bytes("abcd", {257}));
}

TEST(Requests, ErrorsNameTheRow) {
  const auto tokenizer = byte_tokenizer(true);
  const Item item{.where = "rows.jsonl:7", .requests = {{"a", "bcdefg"}}};
  EXPECT_EQ(
      error_of([&] { RequestEncoder(*tokenizer, 4).encode_item(item, Score::kContinuation); }),
      "rows.jsonl:7: a continuation of 6 tokens is longer than the model's window of 4; give "
      "options.sequence_length = 6 or more");
  EXPECT_NE(error_of([&] { RequestEncoder(*tokenizer, 0); }).find("names no context length"),
            std::string::npos);
}

}  // namespace
}  // namespace penstock::tasks
