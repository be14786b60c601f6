// The server's answers to requests, without the transport.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/serve/answer_room.h"
#include "penstock/serve/metrics.h"
#include "penstock/serve/reply.h"
#include "penstock/serve/request.h"
#include "penstock/serve/served_model.h"

namespace penstock::serve {

struct ApiOptions {
  std::string api_key;  ///< "": requests need no key
  /// Host names that requests without a key may use, so that a page of another site cannot make a
  /// browser send requests. Empty: any.
  std::vector<std::string> hosts;
  /// Further bodies to GET, by path; "/" replaces the page.
  std::map<std::string, std::function<Reply()>> endpoints;
  std::chrono::milliseconds timeout{600'000};  ///< limit of one answer
  /// The time after `timeout` in which a client may read what was written of its stream.
  std::chrono::milliseconds reading_time{10'000};
  /// Memory for the part of a stream that its client has not read. A text beyond it is interrupted.
  std::size_t unread_bytes = 8 << 20;
  std::int64_t routing_tokens = 2048;  ///< largest number of tokens of POST /v1/routing
  /// Largest number of gates and logits that the answers to POST /v1/routing hold together. An
  /// answer that is alone may hold more.
  std::int64_t routing_numbers = 1 << 25;
  RequestLimits limits;  ///< `limits.texts` is also limited by the models' queues
};

class Api : public Responder {
 public:
  /// @param models  the first serves requests that name no model; may be empty
  Api(std::vector<ServedModel> models, ApiOptions options);
  Reply answer(const ApiRequest& request) override;
  void refused(int status) override { metrics_.answered("other", status); }

 private:
  Reply routed(const ApiRequest& request);
  /// The answer to POST on one of the paths of kPaths.
  Reply posted(const std::string& path, const std::string& body);
  /// The HTTP method of the path; "" for an unknown path.
  std::string_view method_of(const std::string& path) const;
  std::string counted_path(const std::string& path) const;
  /// The message of a 404. It lists the known paths.
  std::string unknown_path(const std::string& path) const;
  void check_caller(const ApiRequest& request) const;
  /// Throws RequestError 404 for an unknown model.
  const ServedModel& named(const std::string& model) const;
  Reply texts(TextRequest request);
  Reply models() const;
  Reply health();
  /// The sum over all models.
  ServiceState state();

  std::vector<ServedModel> models_;
  ApiOptions options_;
  Metrics metrics_;
  AnswerRoom routing_room_;
  std::int64_t started_;
};

}  // namespace penstock::serve
