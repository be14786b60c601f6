// Clients by HTTP/1.1, each connection in a thread. One connection is http_connection.h's.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/serve/http_connection.h"

namespace penstock::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                 ///< 0: any that is free
  std::int64_t connections = 128;  ///< most at a time
  PlaceTimes places;               ///< of clients beyond them
  ConnectionLimits limits;
};

/// Whether only this machine reaches that host.
bool is_loopback(const std::string& host);

class HttpServer {
 public:
  /// `responder` outlives it.  Throws Error where the host is not this machine or the port is
  /// taken.
  HttpServer(Responder& responder, const HttpOptions& options);
  /// As stop().
  ~HttpServer();
  int port() const { return listener_.port(); }
  /// Takes no more connections and requests; answers under way are sent. Waits for their end.
  void stop();

 private:
  void run();
  /// One thread more, where none waits for the next client: one for each place, and one for who has
  /// none yet. There are places for all threads but that one, which is fewer where the system has
  /// no more threads.
  void grow();

  Responder& responder_;
  HttpOptions options_;
  StopFlag stop_;
  Places places_;
  Listener listener_;
  std::mutex mutex_;
  std::int64_t waiting_ = 0;  // threads that wait for a client
  std::vector<std::thread> threads_;
};

}  // namespace penstock::serve
