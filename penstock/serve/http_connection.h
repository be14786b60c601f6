// One client's connection. It reads requests within limits and writes the answers of a Responder,
// until either side ends the connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "penstock/serve/connection_slots.h"
#include "penstock/serve/http_message.h"
#include "penstock/serve/reply.h"
#include "penstock/serve/socket.h"

namespace penstock::serve {

struct ConnectionLimits {
  HeadLimits head;
  std::int64_t body_bytes = 1 << 20;  ///< longest body of a request (413)
  /// The time from the first byte of a request to its last (408).
  std::chrono::milliseconds request_time{10'000};
  std::chrono::milliseconds idle_time{5'000};  ///< the time between two requests
  /// The time within which a client must accept some of the sent bytes.
  std::chrono::milliseconds write_time{10'000};
};

class HttpConnection {
 public:
  /// @param slot  held for the connection's lifetime
  HttpConnection(ClientSocket socket, Responder& responder, const ConnectionLimits& limits,
                 std::optional<ConnectionSlot> slot)
      : socket_(std::move(socket)),
        responder_(responder),
        limits_(limits),
        slot_(std::move(slot)) {}
  /// Answers requests until the connection ends. Without a slot it only answers 503.
  void serve();

 private:
  enum class Next { request, end };
  /// Waits for the first byte of a request, then reads its head and body.
  Next read_request(ApiRequest& request);
  /// Waits for further bytes while there is no request. @return whether some came; else the
  /// connection ends
  bool await_request(Deadline idle_since);
  /// Reads more, or throws: RequestError 408, Gone.
  void read_more(Deadline deadline);

  /// @return whether the connection stays open
  bool send(Reply reply);
  bool send_whole(const Reply& reply);
  /// Collects the whole answer, then sends it.
  bool wait_and_send(Reply reply);
  /// Sends each part as it comes: in chunks, or in HTTP/1.0 up to the connection's end.
  bool send_stream(Reply reply);
  void refuse(const RequestError& error, const Headers& headers = {});
  /// Whether the client is still there. To find out, it sends `probe`, unless that is empty, to a
  /// client that has closed its sending side.
  bool still_there(const std::string& probe);
  Headers headers_of(const Reply& reply) const;
  bool write(std::string_view text) { return socket_.write(text, limits_.write_time); }

  ClientSocket socket_;
  Responder& responder_;
  const ConnectionLimits& limits_;
  std::optional<ConnectionSlot> slot_;
  std::string received_;  // bytes that no request has used yet
  RequestHead head_;      // of the request that is answered now
  Deadline next_probe_{};
};

}  // namespace penstock::serve
