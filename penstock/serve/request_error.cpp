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
nlohmann::ordered_json code_of(const RequestError& error) {
  if (!error.code().empty()) return error.code();
  if (error.status() == 401) return "invalid_api_key";
  if (error.status() == 404 && error.parameter() == "model") return "model_not_found";
  return nullptr;
}

}  // namespace

std::string error_body(const RequestError& error) {
  const std::string& parameter = error.parameter();
  nlohmann::ordered_json out{{"message", error.message()}, {"type", type_of(error.status())}};
  out["param"] = parameter.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(parameter);
  out["code"] = code_of(error);
  return json_text(nlohmann::ordered_json{{"error", out}});
}

}  // namespace penstock::serve
