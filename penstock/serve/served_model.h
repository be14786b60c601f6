// A model that clients can name in requests, and the answers that describe it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/serve/chat_form.h"
#include "penstock/serve/reply_json.h"
#include "penstock/serve/request.h"
#include "penstock/serve/service.h"

namespace penstock::serve {

struct ServedModel {
  std::string name;  ///< the name in requests and answers
  std::shared_ptr<Service> service;
  std::optional<ChatForm> chat_form = {};  ///< none: the model refuses chats
  std::string no_chat = {};                ///< why the model refuses chats
};

/// The model's entry in GET /v1/models.
nlohmann::ordered_json model_json(const ServedModel& model, std::int64_t created);

/// The tokens that the model reads for a chat. Throws RequestError for a model without a form of
/// chats, and as chat_tokens() does.
std::vector<TokenId> tokens_of_chat(const ServedModel& model,
                                    const std::vector<ChatMessage>& messages);

/// The texts that a request asks for: n for each prompt, or n for the chat. Sets the number of
/// prompt tokens and the echoed tokens in `head`.  Throws Error and RequestError for prompts that
/// the tokenizer or the chat form does not accept.
std::vector<TextOrder> text_orders(const ServedModel& model, const TextRequest& request,
                                   ReplyHead& head);

/// Throws RequestError with the key for a routing choice that the model does not accept.
void check_choice(const ServedModel& model, const RoutingChoice& choice);

}  // namespace penstock::serve
