// The api over HTTP/1.1, by cpp-httplib where the library was built with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "penstock/serve/api.h"

namespace penstock::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                    ///< 0: any that is free
  std::int64_t body_bytes = 1 << 20;  ///< most of a request's body
  std::int64_t connections = 128;     ///< that are served at a time; more wait
  std::chrono::seconds io_timeout{
      10};  ///< of reading a request, and of a client that reads nothing
};

/// Whether the library was built with what HttpServer needs.
bool can_serve_http();
/// Whether only this machine reaches that host.
bool is_loopback(const std::string& host);

class HttpServer {
 public:
  /// `api` outlives it.  Throws Error where !can_serve_http(), and where the port is taken.
  HttpServer(Api& api, const HttpOptions& options);
  ~HttpServer();
  int port() const;
  /// Answers until stop(), by threads of its own. Returns when all have ended.
  void run();
  /// Takes no more connections, and ends those there are. Any thread.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::serve
