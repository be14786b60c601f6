// A client's mistake, with the fields of errors in OpenAI's interface.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace penstock::serve {

class RequestError : public std::runtime_error {
 public:
  /// @param status  the HTTP status;  @param parameter  the request's key that is wrong, or ""
  /// @param code  by which clients recognise the error; "": the usual one for status and parameter
  RequestError(int status, const std::string& what, std::string parameter = {},
               std::string code = {})
      : std::runtime_error(what),
        message_(what),
        status_(status),
        parameter_(std::move(parameter)),
        code_(std::move(code)) {}
  /// The whole text. (what() ends at the first NUL byte, which a client's key may contain.)
  const std::string& message() const { return message_; }
  int status() const { return status_; }
  const std::string& parameter() const { return parameter_; }
  const std::string& code() const { return code_; }

 private:
  std::string message_;
  int status_;
  std::string parameter_, code_;
};

/// {"error": {"message", "type", "param", "code"}}
std::string error_body(const RequestError& error);
inline std::string error_body(int status, const std::string& message) {
  return error_body(RequestError(status, message));
}

}  // namespace penstock::serve
