#include "penstock/serve/token_answers.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/data/utf8.h"
#include "penstock/serve/piecewise_reply.h"
#include "penstock/serve/reply_json.h"
#include "penstock/serve/request_error.h"

namespace penstock::serve {
namespace {

using Json = nlohmann::ordered_json;

std::vector<TokenId> tokens_of(const ServedModel& model, const TokenizeRequest& request) {
  if (request.key == "messages") return tokens_of_chat(model, request.messages);
  const Tokenizer& tokenizer = model.service->tokenizer();
  std::vector<TokenId> out;
  if (const TokenId begin = tokenizer.beginning_of_document();
      request.begins_document && begin >= 0)
    out.push_back(begin);
  if (request.text.empty()) return out;  // some tokenizers put a space before every text
  if (request.has_controls)
    tokenizer.encode_with_controls(request.text, out);
  else
    tokenizer.encode(request.text, out);
  return out;
}

using TextOfToken = std::string(const Tokenizer&, TokenId);

std::string id_text(const Tokenizer& /*tokenizer*/, TokenId id) { return std::to_string(id); }

std::string string_text(const Tokenizer& tokenizer, TokenId id) {
  return json_text(Json(spelt(tokenizer, id)));
}

/// {"id", "piece"}. A piece that is no text by itself is the list of its bytes.
std::string piece_text(const Tokenizer& tokenizer, TokenId id) {
  std::string bytes;
  tokenizer.decode(id, bytes);
  Json piece = bytes;
  if (find_invalid_utf8(bytes) != std::string_view::npos)
    piece = std::vector<unsigned char>(bytes.begin(), bytes.end());
  return json_text(Json{{"id", id}, {"piece", std::move(piece)}});
}

}  // namespace

Reply tokenize_answer(const ServedModel& model, const TokenizeRequest& request,
                      std::chrono::steady_clock::time_point deadline) {
  auto ids = std::make_shared<std::vector<TokenId>>();
  try {
    *ids = tokens_of(model, request);
  } catch (const Error& error) {
    throw RequestError(400, error.what(), request.key);
  }
  const std::int64_t count = std::ssize(*ids);
  const auto list = [&](std::string before, TextOfToken* text) {
    return JsonList{.before = std::move(before),
                    .count = count,
                    .element = [service = model.service, ids, text](std::int64_t i) {
                      return text(service->tokenizer(), (*ids)[static_cast<std::size_t>(i)]);
                    }};
  };
  std::vector<JsonList> lists;
  lists.push_back(list("{\"tokens\":[", request.with_pieces ? piece_text : id_text));
  std::string after = "],\"token_strs\":null";
  if (request.with_strings) {
    lists.push_back(list("],\"token_strs\":[", string_text));
    after = "]";
  }
  after += fmt::format(",\"count\":{},\"max_model_len\":{}}}", count, model.service->capacity());
  return {.stream = std::make_unique<PiecewiseReply>(std::move(lists), std::move(after), deadline),
          .as_it_comes = true};
}

std::string detokenize_answer(const ServedModel& model, const DetokenizeRequest& request,
                              std::size_t most) {
  const Tokenizer& tokenizer = model.service->tokenizer();
  try {
    std::string piece;
    std::size_t bytes = 0;
    for (const TokenId id : request.tokens) {
      piece.clear();
      tokenizer.decode(id, piece);
      bytes += piece.size();
      PENSTOCK_CHECK(bytes <= most, "the tokens stand for more than ", most, " bytes of text");
    }
    const std::string text = tokenizer.decode(request.tokens);
    return json_text(Json{{"content", text}, {"prompt", text}});
  } catch (const Error& error) {
    throw RequestError(400, error.what(), "tokens");
  }
}

}  // namespace penstock::serve
