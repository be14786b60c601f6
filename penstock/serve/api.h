// What the server answers to each request, whatever carries requests and answers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/serve/chat_form.h"
#include "penstock/serve/metrics.h"
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

struct ApiRequest {
  std::string method, path, body;
  std::string authorization, content_type, host;  ///< of the headers
};

/// An answer that comes bit by bit. Going before it is over cancels what is under way.
class ReplyStream {
 public:
  virtual ~ReplyStream() = default;
  /// What comes within `patience`, perhaps nothing.  @return false once nothing follows
  virtual bool next(std::string& out, std::chrono::milliseconds patience) = 0;
};

struct Reply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::unique_ptr<ReplyStream> stream;  ///< in place of the body, or null
};

class Api {
 public:
  /// `service` outlives it.
  Api(Service& service, ApiOptions options);
  /// Never throws but for memory: errors are answers. Waits for what it needs. Any thread.
  Reply answer(const ApiRequest& request);
  Metrics& metrics() { return metrics_; }

 private:
  Reply routed(const ApiRequest& request);
  void check_caller(const ApiRequest& request) const;
  void check_model(const std::string& name) const;
  Reply texts(TextRequest request);
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
