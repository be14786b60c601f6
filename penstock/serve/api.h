// What the server answers to each request, whatever carries requests and answers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/serve/metrics.h"
#include "penstock/serve/reply.h"
#include "penstock/serve/request.h"
#include "penstock/serve/served_model.h"

namespace penstock::serve {

struct ApiOptions {
  std::string api_key;  ///< "": anybody may ask
  /// Names by which the server may be asked without a key, so that no page of another place can
  /// have a browser ask it. Empty: any.
  std::vector<std::string> hosts;
  /// What there is to GET besides, by path; "/" in place of the page.
  std::map<std::string, std::function<Reply()>> places;
  std::chrono::milliseconds timeout{600'000};  ///< of one answer
  std::int64_t routing_tokens = 2048;          ///< most tokens of POST /v1/routing
  RequestLimits limits;
};

class Api : public Responder {
 public:
  /// @param models  the first is asked where a request names none; there may be none
  Api(std::vector<ServedModel> models, ApiOptions options);
  Reply answer(const ApiRequest& request) override;
  void refused(int status) override { metrics_.answered("other", status); }

 private:
  Reply routed(const ApiRequest& request);
  /// The method by which that path is asked; "" where there is nothing.
  std::string_view method_of(const std::string& path) const;
  std::string counted_path(const std::string& path) const;
  void check_caller(const ApiRequest& request) const;
  /// Throws RequestError 404 where there is no such model.
  const ServedModel& named(const std::string& model) const;
  Reply texts(TextRequest request);
  Reply models() const;
  Reply health();
  /// Of all models together.
  ServiceState state();

  std::vector<ServedModel> models_;
  ApiOptions options_;
  Metrics metrics_;
  std::int64_t started_;
};

}  // namespace penstock::serve
