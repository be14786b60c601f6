// Writes answers as OpenAI's JSON: whole answers, and the chunks of a stream.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "penstock/serve/answer.h"
#include "penstock/serve/request.h"

namespace penstock::serve {

/// The fields that all chunks of an answer share.
struct ReplyHead {
  std::string id, model;
  std::int64_t created = 0;  ///< seconds since 1970
  bool chat = false;
  bool include_usage = false;  ///< a stream's last chunk has the usage, the others null
  std::int64_t prompt_tokens = 0;
  std::int64_t likeliest = -1;
  RoutingShown routing = RoutingShown::none;
  /// For each text, the prompt's tokens that it begins with; empty: texts do not repeat the prompt.
  std::vector<std::vector<TokenId>> echoed = {};
};

/// "stop", "length", or "interrupted" if a time limit or the server's end cut the text.
std::string finish_reason(Finish finish);

/// Turns an answer's events into JSON, one by one.
class ReplyWriter {
 public:
  /// REQUIRES: `tokenizer` outlives the writer.
  ReplyWriter(ReplyHead head, std::size_t texts, const Tokenizer& tokenizer);

  /// The objects that the client of a stream receives for this event; there may be none.
  std::vector<std::string> chunks(const AnswerEvent& event);
  /// The message of an event that is a failure. It names the model.
  std::string failure(const AnswerEvent& event) const { return head_.model + ": " + event.failure; }
  /// The objects before the first event: the beginning of each message of a chat.
  std::vector<std::string> first_chunks() const;
  /// The object after the last event, with the numbers of tokens; "" if it was not requested.
  std::string usage_chunk() const;

  /// Stores the event's content, for answers that are not streamed.
  void keep(const AnswerEvent& event);
  std::string whole() const;

  std::int64_t written_tokens() const { return written_; }

 private:
  struct Text {
    std::string text;
    std::string finish;
    std::vector<std::int64_t> echo_begins;  // the offset of each token of an echoed prompt
    std::int64_t echo_end = 0;              // the offset after an echoed prompt
    nlohmann::ordered_json logprobs;        // null until the first token with a score
    std::int64_t tokens = 0;
  };

  nlohmann::ordered_json head(bool chunk) const;
  /// A chunk with one choice.
  nlohmann::ordered_json chunk_of(nlohmann::ordered_json choice) const;
  nlohmann::ordered_json usage() const;
  nlohmann::ordered_json routing_json(const GeneratedToken& token, std::int64_t number) const;
  nlohmann::ordered_json choice(std::size_t index, nlohmann::ordered_json content,
                                nlohmann::ordered_json logprobs, const std::string& finish) const;
  /// Adds a token's log-probabilities to those of a text or a chunk.
  /// @param behind  number of characters of the echoed prompt, which is added to the token's offset
  void add_logprobs(nlohmann::ordered_json& to, const GeneratedToken& token,
                    std::int64_t behind) const;
  /// Begins the text with its prompt.
  void echo(Text& text, const std::vector<TokenId>& prompt) const;
  /// Adds the log-probabilities of an echoed prompt. Its first token has none.
  void keep_scores(Text& text, const std::vector<TokenId>& prompt,
                   const std::vector<TokenScore>& scores) const;

  ReplyHead head_;
  std::vector<Text> texts_;
  const Tokenizer& tokenizer_;
  std::int64_t written_ = 0;
};

/// The text of a token. Bytes that are not valid UTF-8 by themselves are spelt as OpenAI does:
/// "bytes:\xe2\x82".
std::string spelt(const Tokenizer& tokenizer, TokenId token);

/// [[expert, gate], ...] of a layer.
nlohmann::ordered_json shares_json(const std::vector<ExpertShare>& shares);

}  // namespace penstock::serve
