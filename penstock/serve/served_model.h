// A model that clients can ask for, and what they are told of it.
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
  std::string name;  ///< in requests and answers
  std::shared_ptr<Service> service;
  std::optional<ChatForm> chat_form = {};  ///< none: chats are refused with
  std::string no_chat = {};                ///< this
};

/// Its entry of GET /v1/models.
nlohmann::ordered_json model_json(const ServedModel& model, std::int64_t created);

/// The texts that a request asks for: n of each prompt, or of the chat. Counts the prompts' tokens
/// in `head`.  Throws Error and RequestError for prompts that the tokenizer or the form of chats
/// does not take.
std::vector<TextOrder> text_orders(const ServedModel& model, const TextRequest& request,
                                   ReplyHead& head);

/// The body of POST /v1/routing's answer: experts, gates and, where asked for, logits of each token
/// in each layer with experts, from one pass over all tokens.
/// @param most  tokens that may be asked for
/// Throws RequestError for what the model does not take.
std::string routing_answer(const ServedModel& model, const RoutingRequest& request,
                           std::int64_t most);

/// Throws RequestError, naming the key, for a routing that the model does not take.
void check_choice(const ServedModel& model, const RoutingChoice& choice);

}  // namespace penstock::serve
