// Reads and checks clients' requests: OpenAI's JSON of completions and chats. It uses no model, no
// tokenizer and no HTTP.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/infer/logit_adjustments.h"
#include "penstock/infer/sampler.h"
#include "penstock/models/routing_choice.h"
#include "penstock/serve/request_error.h"

namespace penstock::serve {

/// Text, or the ids of its tokens.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

/// The author of a chat's message. A request's "developer" counts as `system`.
enum class ChatRole { system, user, assistant };
constexpr std::array<std::string_view, 3> words(ChatRole) {
  return {"system", "user", "assistant"};
}

struct ChatMessage {
  ChatRole role = ChatRole::user;
  std::string content;
};

struct RequestLimits {
  std::int64_t texts = 16;           ///< largest number of texts: prompts times n
  std::int64_t messages = 1024;      ///< largest number of messages in a chat
  std::int64_t tokens = 1 << 20;     ///< largest max_tokens
  int depth = 16;                    ///< deepest nesting of the JSON
  std::size_t text_bytes = 1 << 20;  ///< longest text of POST /detokenize
};

/// A request for texts. A completion has prompts; a chat has messages.
struct TextRequest {
  bool chat = false;
  std::vector<Prompt> prompts;
  std::vector<ChatMessage> messages;
  std::string model;                       ///< "" if the request names none
  std::optional<std::int64_t> max_tokens;  ///< none: as many as fit the context; 0: only with echo
  std::int64_t n = 1;
  SamplingOptions sampling;      ///< its seed is `seed`, where that is given
  LogitAdjustments adjustments;  ///< its ids may be outside of the vocabulary
  std::optional<std::int64_t> seed;
  std::vector<std::string> stop;
  bool stream = false, include_usage = false;
  std::int64_t likeliest = -1;  ///< as in TextOrder
  bool echo = false;            ///< the text and its log-probabilities begin with the prompt
  // Penstock's own keys:
  RoutingShown routing = RoutingShown::none;  ///< sent with every streamed token
  RoutingChoice choice;                       ///< "experts_per_token" and "logit_shift"
};

/// Reads the body of POST /v1/completions. Throws RequestError for a body that is not JSON, and for
/// a key that is unknown, has another type, is out of range or asks for a missing feature.
TextRequest parse_completion(std::string_view body, const RequestLimits& limits = {});
/// Reads the body of POST /v1/chat/completions, with the same errors.
TextRequest parse_chat(std::string_view body, const RequestLimits& limits = {});

/// The body of POST /v1/routing: {"input": text or token ids, "model", "routing": "logits",
/// "experts_per_token", "logit_shift"}.
struct RoutingRequest {
  Prompt input;
  std::string model;
  RoutingShown routing = RoutingShown::experts;
  RoutingChoice choice;
};
RoutingRequest parse_routing(std::string_view body, const RequestLimits& limits = {});

/// The body of POST /tokenize. A text is called "content", as by llama.cpp's clients, or "prompt",
/// as by vLLM's, or it is a chat of "messages". The further keys are those of both servers:
/// "add_special" or "add_special_tokens", "parse_special", "with_pieces", "return_token_strs".
struct TokenizeRequest {
  std::string key;   ///< "content", "prompt" or "messages"
  std::string text;  ///< unless `key` is "messages"
  std::vector<ChatMessage> messages;
  std::string model;
  bool begins_document = false;  ///< the token that begins documents comes first
  bool has_controls = false;     ///< the text of a control piece is that piece
  bool with_pieces = false;      ///< each token has its text beside its id
  bool with_strings = false;     ///< the texts of the tokens are a further list
};
/// A prompt is read as by /v1/completions unless the request says otherwise: it begins a document,
/// and it has no control pieces. Content is read as by llama.cpp: the other way round.
TokenizeRequest parse_tokenize(std::string_view body, const RequestLimits& limits = {});

/// The body of POST /detokenize: {"tokens": ids, "model"}.
struct DetokenizeRequest {
  std::vector<TokenId> tokens;
  std::string model;
};
DetokenizeRequest parse_detokenize(std::string_view body, const RequestLimits& limits = {});

}  // namespace penstock::serve
