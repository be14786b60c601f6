// What the server answers to each request, whatever carries requests and answers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/serve/chat_form.h"
#include "penstock/serve/metrics.h"
#include "penstock/serve/reply.h"
#include "penstock/serve/reply_json.h"
#include "penstock/serve/request.h"
#include "penstock/serve/service.h"

namespace penstock::serve {

struct ApiOptions {
  std::string model;                  ///< its name in requests and answers
  std::optional<ChatForm> chat_form;  ///< none: chats are refused with
  std::string no_chat;                ///< this
  std::string api_key;                ///< "": anybody may ask
  /// Names by which the server may be asked without a key, so that no page of another place can
  /// have a browser ask it. Empty: any.
  std::vector<std::string> hosts;
  std::chrono::milliseconds timeout{600'000};  ///< of one answer
  std::int64_t routing_tokens = 2048;          ///< most tokens of POST /v1/routing
  RequestLimits limits;
};

class Api : public Responder {
 public:
  /// `service` outlives it.
  Api(Service& service, ApiOptions options);
  Reply answer(const ApiRequest& request) override;
  void refused(int status) override { metrics_.answered("other", status); }

 private:
  Reply routed(const ApiRequest& request);
  void check_caller(const ApiRequest& request) const;
  void check_model(const std::string& name) const;
  Reply texts(TextRequest request);
  std::unique_ptr<Ticket> submitted(const TextRequest& request, ReplyHead& head,
                                    std::size_t& texts);
  std::vector<TextOrder> orders_of(const TextRequest& request, ReplyHead& head) const;
  TextOrder order_of(const TextRequest& request, std::vector<TokenId> prompt,
                     bool begins_document) const;
  std::vector<std::vector<TokenId>> prompts_of(const TextRequest& request) const;
  Reply routing(const RoutingRequest& request);
  Reply models() const;
  Reply health();

  Service& service_;
  ApiOptions options_;
  Metrics metrics_;
  std::int64_t started_;
};

}  // namespace penstock::serve
