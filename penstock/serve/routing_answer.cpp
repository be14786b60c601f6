// Writes the experts, gates and logits of each token of a text as JSON.
#include <fmt/format.h>

#include <map>

#include "penstock/analysis/routing_trace.h"
#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/infer/generate.h"
#include "penstock/serve/request_error.h"
#include "penstock/serve/served_model.h"

namespace penstock::serve {
namespace {

using Json = nlohmann::ordered_json;

at::Tensor as_floats(const at::Tensor& x) { return x.to(at::kFloat).contiguous(); }

/// [tokens][experts of the token][expert, gate]
Json experts_json(const at::Tensor& gates) {
  const float* gate = gates.data_ptr<float>();
  Json out = Json::array();
  for (std::int64_t t = 0; t < gates.size(0); ++t) {
    std::vector<ExpertShare> shares;
    for (std::int64_t e = 0; e < gates.size(1); ++e, ++gate)
      if (*gate != 0) shares.push_back({.expert = e, .weight = *gate});
    out.push_back(shares_json(shares));
  }
  return out;
}

/// [T][E]
Json rows_json(const at::Tensor& values) {
  const float* row = values.data_ptr<float>();
  Json out = Json::array();
  for (std::int64_t t = 0; t < values.size(0); ++t, row += values.size(1))
    out.push_back(std::vector<float>(row, row + values.size(1)));
  return out;
}

}  // namespace

std::string routing_answer(const ServedModel& model, const RoutingRequest& request,
                           std::int64_t most) {
  check_choice(model, request.choice);
  Service& service = *model.service;
  const auto* text = std::get_if<std::string>(&request.input);
  std::map<std::string, at::Tensor> trace;
  std::vector<TokenId> ids;
  try {
    ids = text ? prompt_tokens(service.tokenizer(), *text)
               : std::get<std::vector<TokenId>>(request.input);
    PENSTOCK_CHECK(std::ssize(ids) <= most, ids.size(), " tokens are more than the ", most,
                   " that can be asked for at once");
    service.with_model([&](LanguageModel& one) {
      trace = analysis::trace_routing(one, {ids.begin(), ids.end()}, request.choice);
    });
  } catch (const Error& error) {
    throw RequestError(400, error.what(), "input");
  }
  Json out{{"object", "routing"}, {"model", model.name}};
  out["tokens"] = Json::array();
  for (const TokenId id : ids)
    out["tokens"].push_back({{"id", id}, {"text", service.tokenizer().decode({&id, 1})}});
  out["layers"] = Json::array();
  for (std::int64_t layer = 0; layer < service.config().layers; ++layer) {
    const std::string stem = fmt::format("layers.{}.", layer);
    const auto gates = trace.find(stem + "gates"), logits = trace.find(stem + "logits");
    if (gates == trace.end()) continue;
    Json one{{"layer", layer}, {"experts", experts_json(as_floats(gates->second))}};
    if (request.routing == RoutingShown::logits && logits != trace.end())
      one["logits"] = rows_json(as_floats(logits->second));
    out["layers"].push_back(std::move(one));
  }
  return json_text(out);
}

}  // namespace penstock::serve
