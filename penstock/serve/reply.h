// A request and its answer as plain values, between the transport and the responder.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "penstock/serve/http_message.h"

namespace penstock::serve {

struct ApiRequest {
  std::string method, path, body;
  std::string authorization, content_type, host;  ///< values of these headers
};

/// An answer that is made in parts. Destroying it early cancels the work in progress.
class ReplyStream {
 public:
  virtual ~ReplyStream() = default;
  /// Takes the part that comes within `patience`, perhaps empty.  @return false at the end
  /// An exception ends the connection.
  virtual bool next(std::string& out, std::chrono::milliseconds patience) = 0;
  /// The status of an answer that is not an event stream, once it is complete.
  virtual int status() const { return 200; }
};

struct Reply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::unique_ptr<ReplyStream> stream;  ///< replaces the body, or null
  /// Whether the client receives each part at once; otherwise it receives all of them at the end.
  bool as_it_comes = false;
  Headers headers = {};  ///< headers beyond those of every answer
};

/// Answers requests.
class Responder {
 public:
  virtual ~Responder() = default;
  /// The answer to a request. Errors become answers; only lack of memory throws. Thread-safe.
  virtual Reply answer(const ApiRequest& request) = 0;
  /// Reports a request that was refused before answer() could be called.
  virtual void refused(int /*status*/) {}
};

}  // namespace penstock::serve
