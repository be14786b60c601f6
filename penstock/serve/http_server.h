// The HTTP/1.1 server: one thread for each connection (http_connection.h).
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
  int port = 8080;                 ///< 0: any free port
  std::int64_t connections = 128;  ///< largest number of connections at a time
  SlotTimes slots;                 ///< waiting times when all connections are taken
  ConnectionLimits limits;
};

class HttpServer {
 public:
  /// REQUIRES: `responder` outlives the server.  Throws Error if the host is not this machine or
  /// the port is in use.
  HttpServer(Responder& responder, const HttpOptions& options);
  /// Calls stop().
  ~HttpServer();
  int port() const { return listener_.port(); }
  /// Refuses new connections and requests, finishes answers in progress, and waits for their end.
  void stop();

 private:
  void run();
  /// Starts a thread if none waits for the next client. There is one thread for each slot and one
  /// for a client without a slot. If the system cannot start a thread, reduces the number of slots.
  void grow();

  Responder& responder_;
  HttpOptions options_;
  StopFlag stop_;
  ConnectionSlots slots_;
  Listener listener_;
  std::mutex mutex_;
  std::int64_t waiting_ = 0;  // number of threads that wait for a client
  std::vector<std::thread> threads_;
};

}  // namespace penstock::serve
