// HTTP/1.1 as text: the head of a request, bodies in chunks, the head of an answer. Strict, without
// sockets: http_connection.h reads and writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/serve/request_error.h"

namespace penstock::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// Whether two words are the same but for the case of ASCII letters.
bool same_word(std::string_view a, std::string_view b);

/// Limits of a request's head.
struct HeadLimits {
  std::size_t bytes = 16384;  ///< all of it (431)
  std::size_t line = 8192;    ///< its first line (414)
  std::size_t headers = 100;  ///< how many (431)
};

/// The head of a request, checked.
struct RequestHead {
  std::string method;  ///< any token
  std::string path;    ///< of the target, without a query
  bool http_1_0 = false;
  bool keeps_alive = true;  ///< the client would send another request
  bool expects_continue = false;
  bool chunked = false;             ///< the body comes in chunks,
  std::int64_t content_length = 0;  ///< or has that many bytes
  Headers headers;

  /// The value of that header, or "".
  std::string header(std::string_view name) const;
};

/// Bytes of the head, with its empty line; nothing while that has not come.
/// Throws RequestError: 414 and 431 for what is longer than its limit, 400 for a line that does not
/// end in CR LF.
std::optional<std::size_t> head_size(std::string_view received, const HeadLimits& limits = {});

/// Throws RequestError: 400 for what is not HTTP, for several or no Host, a Content-Length that is
/// no number or comes twice or beside chunks; 431 for too many headers; 501 for another transfer
/// coding; 505 for another version.
RequestHead parse_head(std::string_view head, const HeadLimits& limits = {});

/// Takes a body in chunks as it comes.
class ChunkedBody {
 public:
  explicit ChunkedBody(std::int64_t most) : most_(most) {}
  /// Takes from the begin of `received` what it can.  @return how many bytes that were
  /// Throws RequestError: 400 for what are no chunks, 413 for a body longer than `most`.
  std::size_t take(std::string_view received);
  bool over() const { return state_ == State::over; }
  std::string& body() { return body_; }

 private:
  enum class State { size, data, data_end, trailer, over };
  void begin_chunk(std::string_view line);

  std::int64_t most_;
  std::int64_t left_ = 0;      // of the chunk
  std::int64_t trailers_ = 0;  // bytes of them
  State state_ = State::size;
  std::string body_;
};

/// "HTTP/1.1 200 OK" and those headers, with the empty line.
std::string response_head(int status, const Headers& headers);

}  // namespace penstock::serve
