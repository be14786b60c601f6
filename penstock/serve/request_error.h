// A client's mistake, in the words of OpenAI's interface.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace penstock::serve {

class RequestError : public std::runtime_error {
 public:
  /// @param status  the HTTP status;  @param parameter  the request's key that is wrong, or ""
  RequestError(int status, const std::string& what, std::string parameter = {})
      : std::runtime_error(what), status_(status), parameter_(std::move(parameter)) {}
  int status() const { return status_; }
  const std::string& parameter() const { return parameter_; }

 private:
  int status_;
  std::string parameter_;
};

/// {"error": {"message", "type", "param", "code"}}
std::string error_body(int status, const std::string& message, const std::string& parameter = {});
inline std::string error_body(const RequestError& error) {
  return error_body(error.status(), error.what(), error.parameter());
}

}  // namespace penstock::serve
