#include "penstock/serve/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "penstock/base/fields.h"
#include "penstock/base/parse_number.h"
#include "penstock/serve/missing_features.h"
#include "penstock/serve/object_reader.h"

namespace penstock::serve {
namespace {

using nlohmann::json;

constexpr std::size_t kMostStops = 16;
constexpr std::int64_t kMostLikeliest = 20;
/// With the prompt's tokens an answer has many times as many entries.
constexpr std::int64_t kMostLikeliestOfPrompts = 5;
constexpr std::int64_t kMostExperts = 65536;
constexpr double kLargestBias = 100;

bool is_tokens(const json& value) {
  return value.is_array() && !value.empty() && value[0].is_number();
}

std::vector<TokenId> ids_of(ObjectReader& reader, const std::string& key, const json& value) {
  std::vector<TokenId> out;
  for (const json& id : value) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<TokenId>::max())
      reader.refuse(key, "has an element that is no token id");
    out.push_back(id.get<TokenId>());
  }
  return out;
}

Prompt prompt_of(ObjectReader& reader, const std::string& key, const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!is_tokens(value)) reader.refuse(key, "must be a string or an array of token ids");
  return ids_of(reader, key, value);
}

std::vector<Prompt> prompts_of(ObjectReader& reader, const RequestLimits& limits) {
  const json* value = reader.find("prompt");
  if (!value) reader.refuse("prompt", "is missing");
  if (!value->is_array() || is_tokens(*value)) return {prompt_of(reader, "prompt", *value)};
  if (value->empty()) reader.refuse("prompt", "is an empty array");
  if (std::ssize(*value) > limits.texts)
    reader.refuse("prompt", fmt::format("has more than {} elements", limits.texts));
  std::vector<Prompt> out;
  for (const json& one : *value) out.push_back(prompt_of(reader, "prompt", one));
  return out;
}

std::vector<std::string> stops_of(ObjectReader& reader) {
  const json* value = reader.find("stop");
  if (!value) return {};
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > kMostStops)
    reader.refuse("stop", fmt::format("has more than {} strings", kMostStops));
  std::vector<std::string> out;
  for (const json& one : list) {
    if (!one.is_string() || one.get_ref<const std::string&>().empty())
      reader.refuse("stop", "must be a string or an array of strings, none of them empty");
    out.push_back(one.get<std::string>());
  }
  return out;
}

/// Reads how much of the routing the answer shows: true, or "logits".
RoutingShown shown_of(ObjectReader& reader, RoutingShown usual) {
  const json* value = reader.find("routing");
  if (!value) return usual;
  if (*value == "logits") return RoutingShown::logits;
  if (!value->is_boolean()) reader.refuse("routing", "must be true, false or \"logits\"");
  return value->get<bool>() ? RoutingShown::experts : RoutingShown::none;
}

RoutingChoice choice_of(ObjectReader& reader) {
  return {.k = reader.integer("experts_per_token", 1, kMostExperts).value_or(0),
          .logit_shift = reader.number("logit_shift", -1e6, 1e6).value_or(0)};
}

std::vector<std::pair<TokenId, double>> bias_of(ObjectReader& reader) {
  std::vector<std::pair<TokenId, double>> out;
  const json* value = reader.find("logit_bias");
  if (!value || is_empty(*value)) return out;
  if (!value->is_object())
    reader.refuse("logit_bias", "must be an object with numbers by token id");
  for (const auto& [key, bias] : value->items()) {
    const auto id = parse_number<TokenId>(key);
    if (!id || *id < 0 || std::to_string(*id) != key)
      reader.refuse("logit_bias", "has a key that is no token id");
    if (!bias.is_number() || std::abs(bias.get<double>()) > kLargestBias)
      reader.refuse("logit_bias", fmt::format("must have numbers from -{0} to {0}", kLargestBias));
    out.emplace_back(*id, bias.get<double>());
  }
  return out;
}

LogitAdjustments adjustments_of(ObjectReader& reader) {
  return {.repetition_penalty = reader.number("repetition_penalty", 0.01, 100).value_or(1),
          .frequency_penalty = reader.number("frequency_penalty", -2, 2).value_or(0),
          .presence_penalty = reader.number("presence_penalty", -2, 2).value_or(0),
          .bias = bias_of(reader)};
}

/// Reads the keys that completions and chats share.
void read_common(ObjectReader& reader, const RequestLimits& limits, TextRequest& out) {
  out.model = reader.text("model").value_or("");
  out.n = reader.integer("n", 1, limits.texts).value_or(1);
  if (out.n * std::max<std::int64_t>(1, std::ssize(out.prompts)) > limits.texts)
    reader.refuse(
        "n", fmt::format("asks for more than {} texts together with the prompts", limits.texts));
  if (reader.integer("best_of", 1, limits.texts).value_or(out.n) != out.n)
    reader.refuse("best_of", "is not supported, except the value of 'n'");
  out.sampling.temperature = reader.number("temperature", 0, 100).value_or(1);
  out.sampling.top_p = reader.number("top_p", 0, 1).value_or(1);
  // Some clients write -1 for all tokens.
  out.sampling.top_k = std::max<std::int64_t>(
      0, reader.integer("top_k", -1, std::numeric_limits<TokenId>::max()).value_or(0));
  out.sampling.min_p = reader.number("min_p", 0, 1).value_or(0);
  if (out.sampling.top_p == 0) {  // only the likeliest token
    out.sampling.top_k = 1;
    out.sampling.top_p = 1;
  }
  out.seed = reader.integer("seed", std::numeric_limits<std::int64_t>::min(),
                            std::numeric_limits<std::int64_t>::max());
  out.sampling.seed = static_cast<std::uint64_t>(out.seed.value_or(0));
  out.adjustments = adjustments_of(reader);
  out.stop = stops_of(reader);
  out.stream = reader.boolean("stream").value_or(false);
  if (const json* options = reader.find("stream_options"); options && !is_empty(*options)) {
    if (!out.stream) reader.refuse("stream_options", "needs 'stream'");
    ObjectReader inner(*options, "stream_options");
    out.include_usage = inner.boolean("include_usage").value_or(false);
    inner.ignore({"include_obfuscation", "continuous_usage_stats"});
    inner.finish();
  }
  out.routing = shown_of(reader, RoutingShown::none);
  if (out.routing != RoutingShown::none && !out.stream) reader.refuse("routing", "needs 'stream'");
  out.choice = choice_of(reader);
  refuse_missing_features(reader);
}

/// A message's content: a text, or a list of text parts.
std::string content_of(ObjectReader& message, const std::string& name) {
  const json* value = message.find("content");
  if (!value) message.refuse("content", "is missing");
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) message.refuse("content", "must be a string or an array of text parts");
  std::string out;
  for (std::size_t i = 0; i < value->size(); ++i) {
    ObjectReader reader((*value)[i], fmt::format("{}.content[{}]", name, i));
    if (reader.text("type") != "text") reader.refuse("type", "must be \"text\"");
    out += reader.text("text").value_or("");
    reader.finish();
  }
  return out;
}

std::vector<ChatMessage> messages_of(ObjectReader& reader, const RequestLimits& limits) {
  const json* value = reader.find("messages");
  if (!value || !value->is_array() || value->empty())
    reader.refuse("messages", "must be an array of messages, one or more");
  if (std::ssize(*value) > limits.messages)
    reader.refuse("messages", fmt::format("has more than {} elements", limits.messages));
  std::vector<ChatMessage> out;
  for (std::size_t i = 0; i < value->size(); ++i) {
    const std::string name = fmt::format("messages[{}]", i);
    ObjectReader message((*value)[i], name);
    std::string role = message.text("role").value_or("");
    if (role == "developer") role = "system";
    const auto known = of_word<ChatRole>(role);
    if (!known) message.refuse("role", "must be \"system\", \"user\" or \"assistant\"");
    // Clients send an answer back as they got it, with the keys of features that it does not use.
    // A message that calls tools may have no content, so these keys are read first.
    refuse_missing_features_of_message(message);
    out.push_back({.role = *known, .content = content_of(message, name)});
    message.finish();
  }
  return out;
}

}  // namespace

TextRequest parse_completion(std::string_view body, const RequestLimits& limits) {
  const json object = parse_object(body, limits.depth);
  ObjectReader reader(object);
  TextRequest out;
  out.prompts = prompts_of(reader, limits);
  read_common(reader, limits, out);
  out.echo = reader.boolean("echo").value_or(false);
  if (out.echo && out.stream) reader.refuse("echo", "is not supported with 'stream'");
  const std::int64_t least = out.echo ? 0 : 1;  // the prompt alone can be asked for
  out.max_tokens = reader.integer("max_tokens", least, limits.tokens).value_or(16);
  const std::int64_t likeliest = out.echo ? kMostLikeliestOfPrompts : kMostLikeliest;
  out.likeliest = reader.integer("logprobs", 0, likeliest).value_or(-1);
  reader.finish();
  return out;
}

TextRequest parse_chat(std::string_view body, const RequestLimits& limits) {
  const json object = parse_object(body, limits.depth);
  ObjectReader reader(object);
  TextRequest out{.chat = true};
  out.messages = messages_of(reader, limits);
  read_common(reader, limits, out);
  if (reader.boolean("echo").value_or(false)) reader.refuse("echo", "is not supported in chats");
  out.max_tokens = reader.integer("max_tokens", 1, limits.tokens);
  if (const auto most = reader.integer("max_completion_tokens", 1, limits.tokens))
    out.max_tokens = most;
  const bool shown = reader.boolean("logprobs").value_or(false);
  const auto likeliest = reader.integer("top_logprobs", 0, kMostLikeliest);
  if (likeliest && !shown) reader.refuse("top_logprobs", "needs 'logprobs'");
  if (shown) out.likeliest = likeliest.value_or(0);
  reader.finish();
  return out;
}

TokenizeRequest parse_tokenize(std::string_view body, const RequestLimits& limits) {
  const json object = parse_object(body, limits.depth);
  ObjectReader reader(object);
  TokenizeRequest out;
  for (const char* const key : {"content", "prompt", "messages"}) {
    if (!reader.find(key)) continue;
    if (!out.key.empty()) reader.refuse(key, fmt::format("cannot be given beside '{}'", out.key));
    out.key = key;
  }
  if (out.key.empty())
    reader.refuse("content", "is missing; 'prompt' and 'messages' are taken too");
  const bool chat = out.key == "messages";
  if (chat)
    out.messages = messages_of(reader, limits);
  else
    out.text = reader.text(out.key).value_or("");
  out.model = reader.text("model").value_or("");
  const auto special = reader.boolean("add_special"), tokens = reader.boolean("add_special_tokens");
  if (special && tokens && *special != *tokens)
    reader.refuse("add_special_tokens", "must be the value of 'add_special'");
  out.begins_document = special.value_or(tokens.value_or(out.key == "prompt"));
  if (chat && out.begins_document)
    reader.refuse(special ? "add_special" : "add_special_tokens",
                  "must be false: the form of chats says how a chat begins");
  out.has_controls = reader.boolean("parse_special").value_or(out.key == "content");
  out.with_pieces = reader.boolean("with_pieces").value_or(false);
  out.with_strings = reader.boolean("return_token_strs").value_or(false);
  refuse_missing_features(reader);
  reader.finish();
  return out;
}

DetokenizeRequest parse_detokenize(std::string_view body, const RequestLimits& limits) {
  const json object = parse_object(body, limits.depth);
  ObjectReader reader(object);
  const json* tokens = reader.find("tokens");
  if (!tokens || !tokens->is_array()) reader.refuse("tokens", "must be an array of token ids");
  DetokenizeRequest out{.tokens = ids_of(reader, "tokens", *tokens)};
  out.model = reader.text("model").value_or("");
  reader.finish();
  return out;
}

RoutingRequest parse_routing(std::string_view body, const RequestLimits& limits) {
  const json object = parse_object(body, limits.depth);
  ObjectReader reader(object);
  const json* input = reader.find("input");
  if (!input) reader.refuse("input", "is missing");
  RoutingRequest out{.input = prompt_of(reader, "input", *input)};
  out.model = reader.text("model").value_or("");
  out.routing = shown_of(reader, RoutingShown::experts);
  out.choice = choice_of(reader);
  reader.finish();
  return out;
}

}  // namespace penstock::serve
