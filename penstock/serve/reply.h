// A request and its answer as plain values, between whoever carries them and whoever answers.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "penstock/serve/http_message.h"

namespace penstock::serve {

struct ApiRequest {
  std::string method, path, body;
  std::string authorization, content_type, host;  ///< of the headers
};

/// An answer that comes bit by bit. Going before it is over cancels what is under way.
class ReplyStream {
 public:
  virtual ~ReplyStream() = default;
  /// What comes within `patience`, perhaps nothing.  @return false once nothing follows
  virtual bool next(std::string& out, std::chrono::milliseconds patience) = 0;
  /// The status of an answer that is not an event stream, once it is complete.
  virtual int status() const { return 200; }
};

struct Reply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::unique_ptr<ReplyStream> stream;  ///< in place of the body, or null
  /// Whether the client gets the stream as it comes; else all of it at its end.
  bool as_it_comes = false;
  Headers headers = {};  ///< besides those that every answer has
};

/// Who answers.
class Responder {
 public:
  virtual ~Responder() = default;
  /// Never throws but for memory: errors are answers. Any thread.
  virtual Reply answer(const ApiRequest& request) = 0;
  /// A request was refused before it could be asked.
  virtual void refused(int /*status*/) {}
};

}  // namespace penstock::serve
