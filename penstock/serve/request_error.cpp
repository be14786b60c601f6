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

/// The code by which clients recognise an error; null if they need none.
nlohmann::ordered_json code_of(int status, const std::string& parameter) {
  if (status == 401) return "invalid_api_key";
  if (status == 404 && parameter == "model") return "model_not_found";
  return nullptr;
}

}  // namespace

std::string error_body(int status, const std::string& message, const std::string& parameter) {
  nlohmann::ordered_json error{{"message", message}, {"type", type_of(status)}};
  error["param"] = parameter.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(parameter);
  error["code"] = code_of(status, parameter);
  return json_text(nlohmann::ordered_json{{"error", error}});
}

}  // namespace penstock::serve
