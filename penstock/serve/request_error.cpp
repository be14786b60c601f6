#include "penstock/serve/request_error.h"

#include <nlohmann/json.hpp>

#include "penstock/base/json_text.h"

namespace penstock::serve {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

std::string error_body(int status, const std::string& message, const std::string& parameter) {
  nlohmann::ordered_json error{{"message", message}, {"type", type_of(status)}};
  error["param"] = parameter.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(parameter);
  error["code"] = nullptr;
  return json_text(nlohmann::ordered_json{{"error", error}});
}

}  // namespace penstock::serve
