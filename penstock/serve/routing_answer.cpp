#include "penstock/serve/routing_answer.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/analysis/routing_trace.h"
#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/infer/generate.h"
#include "penstock/serve/piecewise_reply.h"
#include "penstock/serve/reply_json.h"
#include "penstock/serve/request_error.h"

namespace penstock::serve {
namespace {

using Json = nlohmann::ordered_json;

/// A layer's gates and logits, [T, E] each, of type float. The logits may be undefined.
struct LayerTrace {
  std::int64_t layer = 0;  // the number in the model
  at::Tensor gates, logits = {};
};

struct TextTrace {
  std::vector<TokenId> ids;
  std::vector<LayerTrace> layers;
  std::shared_ptr<const void> room;
};

std::vector<LayerTrace> layers_of(const std::map<std::string, at::Tensor>& trace,
                                  const ModelConfig& config, RoutingShown shown) {
  const auto floats = [](const at::Tensor& x) { return x.to(at::kFloat).contiguous(); };
  std::vector<LayerTrace> out;
  for (const std::int64_t layer : config.moe_layer_indices()) {
    const std::string stem = fmt::format("layers.{}.", layer);
    LayerTrace one{.layer = layer, .gates = floats(trace.at(stem + "gates"))};
    const auto logits = trace.find(stem + "logits");
    if (shown == RoutingShown::logits && logits != trace.end()) one.logits = floats(logits->second);
    out.push_back(std::move(one));
  }
  return out;
}

/// The number of gates and logits that an answer holds.
std::int64_t numbers_of(const ModelConfig& config, std::int64_t tokens, RoutingShown shown) {
  if (config.moe_layers() == 0) return 0;
  const std::int64_t kinds = shown == RoutingShown::logits && scores_tokens(config) ? 2 : 1;
  return kinds * tokens * config.moe_layers() * config.total_experts();
}

TextTrace traced(const ServedModel& model, const RoutingRequest& request, std::int64_t most,
                 AnswerRoom& room) {
  Service& service = *model.service;
  const auto* text = std::get_if<std::string>(&request.input);
  TextTrace out;
  try {
    out.ids = text ? prompt_tokens(service.tokenizer(), *text)
                   : std::get<std::vector<TokenId>>(request.input);
    PENSTOCK_CHECK(std::ssize(out.ids) <= most, out.ids.size(), " tokens are more than the ", most,
                   " that can be asked for at once");
    service.with_model([&](LanguageModel& one) {
      // Requests that wait for the model hold no numbers yet, so the room is taken here.
      out.room = room.take(numbers_of(one.config(), std::ssize(out.ids), request.routing));
      if (!out.room)
        throw RequestError(429, "answers to other clients take the memory; try again later");
      out.layers =
          layers_of(analysis::trace_routing(one, {out.ids.begin(), out.ids.end()}, request.choice),
                    one.config(), request.routing);
    });
  } catch (const Error& error) {
    throw RequestError(400, error.what(), "input");
  }
  return out;
}

/// [[expert, gate], ...] of a token.
std::string experts_text(const at::Tensor& gates, std::int64_t token) {
  const float* gate = gates.data_ptr<float>() + token * gates.size(1);
  std::vector<ExpertShare> shares;
  for (std::int64_t e = 0; e < gates.size(1); ++e)
    if (gate[e] != 0) shares.push_back({.expert = e, .weight = gate[e]});
  return json_text(shares_json(shares));
}

/// The logits of all experts for a token.
std::string logits_text(const at::Tensor& logits, std::int64_t token) {
  const float* row = logits.data_ptr<float>() + token * logits.size(1);
  return json_text(Json(std::vector<float>(row, row + logits.size(1))));
}

std::string token_text(const Tokenizer& tokenizer, TokenId id) {
  const bool known = id < tokenizer.vocab_size();  // a model may have more ids than its tokenizer
  return json_text(Json{{"id", id}, {"text", known ? tokenizer.decode({&id, 1}) : std::string()}});
}

std::vector<JsonList> lists_of(const ServedModel& model, TextTrace trace) {
  const std::int64_t tokens = std::ssize(trace.ids);
  std::string before = json_text(Json{{"object", "routing"}, {"model", model.name}});
  before.back() = ',';
  std::vector<JsonList> out;
  out.push_back({.before = before + "\"tokens\":[",
                 .count = tokens,
                 .element = [service = model.service, ids = std::move(trace.ids)](std::int64_t t) {
                   return token_text(service->tokenizer(), ids[static_cast<std::size_t>(t)]);
                 }});
  before = "],\"layers\":[";
  for (const LayerTrace& one : trace.layers) {
    out.push_back(
        {.before = fmt::format("{}{{\"layer\":{},\"experts\":[", before, one.layer),
         .count = tokens,
         .element = [gates = one.gates](std::int64_t t) { return experts_text(gates, t); }});
    before = "]},";
    if (!one.logits.defined()) continue;
    out.push_back(
        {.before = "],\"logits\":[",
         .count = tokens,
         .element = [logits = one.logits](std::int64_t t) { return logits_text(logits, t); }});
  }
  return out;
}

}  // namespace

Reply routing_answer(const ServedModel& model, const RoutingRequest& request, std::int64_t most,
                     AnswerRoom& room, std::chrono::steady_clock::time_point deadline) {
  check_choice(model, request.choice);
  TextTrace trace = traced(model, request, most, room);
  std::shared_ptr<const void> held = trace.room;
  std::vector<JsonList> lists = lists_of(model, std::move(trace));
  return {.stream =
              std::make_unique<PiecewiseReply>(std::move(lists), "]}]}", deadline, std::move(held)),
          .as_it_comes = true};
}

}  // namespace penstock::serve
