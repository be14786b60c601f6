#include "penstock/serve/served_model.h"

#include <fmt/format.h>

#include "penstock/base/error.h"
#include "penstock/infer/generate.h"
#include "penstock/serve/request_error.h"

namespace penstock::serve {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::vector<TokenId>> prompts_of(const ServedModel& model, const TextRequest& request) {
  const Tokenizer& tokenizer = model.service->tokenizer();
  if (request.chat) return {tokens_of_chat(model, request.messages)};
  std::vector<std::vector<TokenId>> out;
  for (const Prompt& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    out.push_back(text ? prompt_tokens(tokenizer, *text) : std::get<std::vector<TokenId>>(prompt));
  }
  return out;
}

/// Refuses a prompt for which there is no room in a text. Clients know this error by its code.
void check_length(const ServedModel& model, const TextRequest& request, std::size_t index,
                  std::int64_t tokens) {
  const std::int64_t most = model.service->capacity();
  if (tokens <= most) return;
  const std::string what = request.chat                  ? "the chat"
                           : request.prompts.size() == 1 ? "the prompt"
                                                         : fmt::format("prompt {}", index + 1);
  throw RequestError(
      400,
      fmt::format("{} has {} tokens, more than the context of {}: shorten it", what, tokens, most),
      request.chat ? "messages" : "prompt", "context_length_exceeded");
}

/// The reader of requests has checked the numbers, so only an id can be wrong.
void check_adjustments(const ServedModel& model, const TextRequest& request) {
  try {
    check(request.adjustments, model.service->tokenizer().vocab_size());
  } catch (const Error& error) {
    throw RequestError(400, error.what(), "logit_bias");
  }
}

TextOrder order_of(const ServedModel& model, const TextRequest& request,
                   std::vector<TokenId> prompt, bool begins_document) {
  const std::int64_t room =
      std::max<std::int64_t>(1, model.service->capacity() + 1 - std::ssize(prompt));
  TextOrder order{.prompt = std::move(prompt),
                  .begins_document = begins_document,
                  .options = {.max_tokens = request.max_tokens.value_or(room),
                              .sampling = request.sampling,
                              .adjustments = request.adjustments,
                              .stop = request.stop},
                  .likeliest = request.likeliest,
                  .scores_all = request.echo && request.likeliest >= 0,
                  .reads_only = request.max_tokens == 0,
                  .routing = request.routing,
                  .choice = request.choice};
  if (order.reads_only) order.options.max_tokens = 1;
  if (!request.chat) return order;
  const std::string_view end = answer_end(*model.chat_form);
  const auto ids = model.service->tokenizer().encode_with_controls(end);
  if (ids.size() == 1)
    order.ends = ids;
  else
    order.options.stop.emplace_back(end);
  return order;
}

}  // namespace

std::vector<TokenId> tokens_of_chat(const ServedModel& model,
                                    const std::vector<ChatMessage>& messages) {
  if (!model.chat_form) throw RequestError(400, model.no_chat, "messages");
  return chat_tokens(*model.chat_form, messages, model.service->tokenizer());
}

std::vector<TextOrder> text_orders(const ServedModel& model, const TextRequest& request,
                                   ReplyHead& head) {
  check_adjustments(model, request);
  std::vector<TextOrder> out;
  const auto prompts = prompts_of(model, request);
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    check_length(model, request, p, std::ssize(prompts[p]));
    head.prompt_tokens += std::ssize(prompts[p]);
    const auto* text = request.chat ? nullptr : std::get_if<std::string>(&request.prompts[p]);
    TextOrder order = order_of(model, request, prompts[p], request.chat || (text && text->empty()));
    for (order.sample = 0; order.sample < request.n; ++order.sample) {
      out.push_back(order);
      if (request.echo) head.echoed.push_back(prompts[p]);
    }
  }
  return out;
}

void check_choice(const ServedModel& model, const RoutingChoice& choice) {
  const auto check = [&](const RoutingChoice& one, const char* key) {
    try {
      penstock::check_choice(model.service->config(), one);
    } catch (const Error& error) {
      throw RequestError(400, error.what(), key);
    }
  };
  check({.k = choice.k}, "experts_per_token");
  check({.logit_shift = choice.logit_shift}, "logit_shift");
}

Json model_json(const ServedModel& model, std::int64_t created) {
  const ModelConfig& config = model.service->config();
  const bool moe = config.moe_layers() > 0;
  Json out{{"id", model.name}, {"object", "model"}, {"created", created}};
  out["owned_by"] = "penstock";
  out["context"] = model.service->capacity();
  out["layers_with_experts"] = config.moe_layers();
  out["expert_layers"] = config.moe_layer_indices();  // as in /v1/routing
  out["experts"] = moe ? config.total_experts() : 0;
  out["experts_per_token"] = moe ? Json(config.active_experts()) : Json();
  out["takes_experts_per_token"] = why_no_k(config).empty();
  out["takes_logit_shift"] = why_no_shift(config).empty();
  out["has_logits"] = scores_tokens(config);
  out["chat"] = model.chat_form ? Json(word(*model.chat_form)) : Json();
  return out;
}

}  // namespace penstock::serve
