#include "penstock/serve/reply_json.h"

#include <fmt/format.h>

#include <utility>

#include "penstock/base/json_text.h"
#include "penstock/data/utf8.h"
#include "penstock/infer/text_stream.h"
#include "penstock/serve/request_error.h"

namespace penstock::serve {

using Json = nlohmann::ordered_json;

Json shares_json(const std::vector<ExpertShare>& shares) {
  Json out = Json::array();
  for (const ExpertShare& share : shares) out.push_back(Json::array({share.expert, share.weight}));
  return out;
}

std::string spelt(const Tokenizer& tokenizer, TokenId token) {
  std::string bytes;
  tokenizer.decode(token, bytes);
  if (find_invalid_utf8(bytes) == std::string_view::npos) return bytes;
  std::string out = "bytes:";
  for (const char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return out;
}

std::string finish_reason(Finish finish) {
  switch (finish) {
    case Finish::end_of_document:
    case Finish::stop:
      return "stop";
    case Finish::length:
    case Finish::context:
      return "length";
    case Finish::interrupted:
      break;
  }
  return "interrupted";
}

ReplyWriter::ReplyWriter(ReplyHead head, std::size_t texts, const Tokenizer& tokenizer)
    : head_(std::move(head)), texts_(texts), tokenizer_(tokenizer) {
  for (std::size_t i = 0; i < head_.echoed.size(); ++i) echo(texts_.at(i), head_.echoed[i]);
}

void ReplyWriter::echo(Text& text, const std::vector<TokenId>& prompt) const {
  TextStream stream;
  bool drops_space = tokenizer_.drops_first_space();
  for (const TokenId token : prompt) {
    std::string bytes;
    tokenizer_.decode(token, bytes);
    if (!bytes.empty() && std::exchange(drops_space, false) && bytes[0] == ' ') bytes.erase(0, 1);
    text.text += stream.push(bytes);
    text.echo_begins.push_back(stream.last_begin());
  }
  text.text += stream.finish();
  text.echo_end = stream.characters();
}

void ReplyWriter::keep_scores(Text& text, const std::vector<TokenId>& prompt,
                              const std::vector<TokenScore>& scores) const {
  text.logprobs["tokens"].push_back(spelt(tokenizer_, prompt.front()));
  text.logprobs["token_logprobs"].push_back(nullptr);
  text.logprobs["top_logprobs"].push_back(nullptr);
  text.logprobs["text_offset"].push_back(text.echo_begins.front());
  for (std::size_t i = 1; i < prompt.size(); ++i)
    add_logprobs(text.logprobs,
                 {.token = prompt[i], .offset = text.echo_begins[i], .score = scores[i - 1]}, 0);
}

Json ReplyWriter::head(bool chunk) const {
  const char* object = !head_.chat ? "text_completion"
                       : chunk     ? "chat.completion.chunk"
                                   : "chat.completion";
  return {{"id", head_.id}, {"object", object}, {"created", head_.created}, {"model", head_.model}};
}

Json ReplyWriter::chunk_of(Json choice) const {
  Json out = head(true);
  out["choices"] = Json::array({std::move(choice)});
  if (head_.include_usage) out["usage"] = nullptr;
  return out;
}

Json ReplyWriter::usage() const {
  return {{"prompt_tokens", head_.prompt_tokens},
          {"completion_tokens", written_},
          {"total_tokens", head_.prompt_tokens + written_}};
}

Json ReplyWriter::choice(std::size_t index, Json content, Json logprobs,
                         const std::string& finish) const {
  Json out{{"index", index}};
  out.update(content);
  out["logprobs"] = std::move(logprobs);
  out["finish_reason"] = finish.empty() ? Json() : Json(finish);
  return out;
}

void ReplyWriter::add_logprobs(Json& to, const GeneratedToken& token, std::int64_t behind) const {
  if (!head_.chat) {
    Json likeliest = Json::object();
    // The best of tokens that are spelt alike keeps its place, so that the largest value is that of
    // the likeliest token.
    for (const LikelyToken& one : token.score.likeliest)
      likeliest.emplace(spelt(tokenizer_, one.token), one.logprob);
    likeliest.emplace(spelt(tokenizer_, token.token), token.score.logprob);
    to["tokens"].push_back(spelt(tokenizer_, token.token));
    to["token_logprobs"].push_back(token.score.logprob);
    to["top_logprobs"].push_back(std::move(likeliest));
    to["text_offset"].push_back(behind + token.offset);
    return;
  }
  const auto entry = [&](TokenId id, double logprob) {
    std::string bytes;
    tokenizer_.decode(id, bytes);
    Json numbers = Json::array();
    for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
    return Json{
        {"token", spelt(tokenizer_, id)}, {"logprob", logprob}, {"bytes", std::move(numbers)}};
  };
  Json own = entry(token.token, token.score.logprob);
  own["top_logprobs"] = Json::array();
  for (const LikelyToken& one : token.score.likeliest)
    own["top_logprobs"].push_back(entry(one.token, one.logprob));
  to["content"].push_back(std::move(own));
  to["refusal"] = nullptr;
}

std::vector<std::string> ReplyWriter::first_chunks() const {
  std::vector<std::string> out;
  if (!head_.chat) return out;
  for (std::size_t i = 0; i < texts_.size(); ++i)
    out.push_back(json_text(
        chunk_of(choice(i, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, nullptr, ""))));
  return out;
}

Json ReplyWriter::routing_json(const GeneratedToken& token, std::int64_t number) const {
  Json layers = Json::array(), logits = Json::array();
  for (const LayerRouting& layer : token.routing) {
    layers.push_back(shares_json(layer.experts));
    logits.push_back(layer.logits);
  }
  // This is the routing of the token before. The model reads this token when it chooses the next.
  Json out{{"token", number}, {"id", token.token}, {"of", number - 1}};
  out["layers"] = std::move(layers);
  if (head_.routing == RoutingShown::logits) out["logits"] = std::move(logits);
  return out;
}

std::vector<std::string> ReplyWriter::chunks(const AnswerEvent& event) {
  Text& text = texts_[event.text];
  const std::string piece = event.token ? event.token->piece : event.rest;
  const auto chunk = [&](const std::string& content, Json logprobs, const std::string& finish) {
    Json body = !head_.chat       ? Json{{"text", content}}
                : content.empty() ? Json{{"delta", Json::object()}}
                                  : Json{{"delta", {{"content", content}}}};
    return chunk_of(choice(event.text, std::move(body), std::move(logprobs), finish));
  };
  if (event.finish) return {json_text(chunk(piece, nullptr, finish_reason(*event.finish)))};
  if (!event.token) return {error_body(500, failure(event))};
  ++written_;
  Json logprobs;
  if (head_.likeliest >= 0) add_logprobs(logprobs, *event.token, text.echo_end);
  const std::int64_t number = text.tokens++;
  const bool routed = head_.routing != RoutingShown::none;
  if (piece.empty() && head_.likeliest < 0 && !routed) return {};
  Json out = chunk(piece, std::move(logprobs), "");
  if (routed) out["routing"] = routing_json(*event.token, number);
  return {json_text(out)};
}

std::string ReplyWriter::usage_chunk() const {
  if (!head_.include_usage) return "";
  Json out = head(true);
  out["choices"] = Json::array();
  out["usage"] = usage();
  return json_text(out);
}

void ReplyWriter::keep(const AnswerEvent& event) {
  Text& text = texts_[event.text];
  if (event.prompt_scores)
    return keep_scores(text, head_.echoed.at(event.text), *event.prompt_scores);
  if (event.token) {
    ++written_;
    if (head_.likeliest >= 0) add_logprobs(text.logprobs, *event.token, text.echo_end);
    text.text += event.token->piece;
    return;
  }
  text.text += event.rest;
  if (event.finish) text.finish = finish_reason(*event.finish);
}

std::string ReplyWriter::whole() const {
  Json out = head(false);
  out["choices"] = Json::array();
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const Text& text = texts_[i];
    Json content{{"text", text.text}};
    if (head_.chat)
      content =
          Json{{"message", {{"role", "assistant"}, {"content", text.text}, {"refusal", nullptr}}}};
    out["choices"].push_back(choice(i, std::move(content), text.logprobs, text.finish));
  }
  out["usage"] = usage();
  return json_text(out);
}

}  // namespace penstock::serve
