// HTTP/1.1 messages: parses requests with Boost.Beast and checks them, and writes the head of an
// answer. This file has no sockets: http_connection.h sends and receives.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/serve/request_error.h"

namespace boost::system {
class error_code;
}

namespace penstock::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// Whether two words are equal, ignoring the case of ASCII letters.
bool same_word(std::string_view a, std::string_view b);

/// Limits of a request's head.
struct HeadLimits {
  std::size_t bytes = 16384;  ///< longest head (431)
  std::size_t line = 8192;    ///< longest first line (414)
  std::size_t headers = 100;  ///< largest number of headers (431)
};

/// The head of a request, checked.
struct RequestHead {
  std::string method;  ///< any token
  std::string path;    ///< the target's path, without a query
  bool http_1_0 = false;
  bool keeps_alive = true;  ///< the client wants to keep the connection
  bool expects_continue = false;
  bool chunked = false;             ///< whether the body is sent in chunks
  std::int64_t content_length = 0;  ///< bytes of the body otherwise
  Headers headers;

  /// The header's value, or "".
  std::string header(std::string_view name) const;
};

/// Reads one request from bytes as they arrive.
class RequestReader {
 public:
  /// @param body_bytes  the largest size of a body
  RequestReader(const HeadLimits& limits, std::int64_t body_bytes);
  ~RequestReader();
  RequestReader(RequestReader&&) noexcept;

  /// Takes bytes from the beginning of `received`.  @return how many bytes it took
  /// Empty lines before the request are ignored, because some clients end a body with one
  /// (RFC 9112, 2.2). A line that ends with LF alone is refused.
  /// Throws RequestError: 400 for text that is not HTTP, for several or no Host, and for a
  /// Content-Length that is not a number, is given twice or is given with chunks; 413 for a too
  /// large body; 414 and 431 for a too large head; 415 for a compressed body; 501 for another
  /// transfer coding; 505 for another version.
  std::size_t take(std::string_view received);
  /// Whether the first line is taken. Empty lines before it do not count.
  bool begun() const { return begun_; }
  bool has_head() const { return head_.has_value(); }
  bool over() const;
  /// REQUIRES: has_head().
  const RequestHead& head() const { return *head_; }
  /// REQUIRES: over().
  std::string& body();

 private:
  /// @return whether the first line is whole
  bool check_first_line(std::string_view received) const;
  [[noreturn]] void refuse(const boost::system::error_code& error) const;
  RequestHead parsed_head() const;

  struct Parser;
  std::unique_ptr<Parser> parser_;
  HeadLimits limits_;
  std::int64_t body_bytes_;
  bool begun_ = false;
  std::size_t head_bytes_ = 0;  // bytes of the head that are taken, with empty lines before it
  std::optional<RequestHead> head_;
};

/// The head of an answer: the status line ("HTTP/1.1 200 OK"), the headers and the empty line.
std::string response_head(int status, const Headers& headers);

}  // namespace penstock::serve
