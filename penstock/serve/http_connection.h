// One client's connection: requests read within their limits, answers written, until either side
// has enough. Who answers is the caller's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "penstock/serve/http_message.h"
#include "penstock/serve/places.h"
#include "penstock/serve/reply.h"
#include "penstock/serve/socket.h"

namespace penstock::serve {

struct ConnectionLimits {
  HeadLimits head;
  std::int64_t body_bytes = 1 << 20;  ///< of a request (413)
  /// From the first byte of a request to its last (408).
  std::chrono::milliseconds request_time{10'000};
  std::chrono::milliseconds idle_time{5'000};  ///< between two requests
  /// In which a client must take something of what it is sent.
  std::chrono::milliseconds write_time{10'000};
};

class HttpConnection {
 public:
  /// @param place  which it keeps while it lives
  HttpConnection(ClientSocket socket, Responder& responder, const ConnectionLimits& limits,
                 std::optional<Place> place)
      : socket_(std::move(socket)),
        responder_(responder),
        limits_(limits),
        place_(std::move(place)) {}
  /// Answers requests until the connection is to end; without a place, that there is none (503).
  void serve();

 private:
  enum class Next { request, end };
  /// Waits for the begin of a request, then reads its head and body.
  Next read_request(ApiRequest& request);
  /// Waits for the begin of a request. @return whether one came; else the connection is to end
  bool await_request();
  /// Reads more, or throws: RequestError 408, Gone.
  void read_more(Deadline deadline);

  /// @return whether the connection may go on
  bool send(Reply reply);
  bool send_whole(const Reply& reply);
  /// An answer that is whole before it is sent.
  bool wait_and_send(Reply reply);
  bool send_stream(Reply reply);
  void refuse(const RequestError& error, const Headers& headers = {});
  /// Whether the client is still there; where it sends no more, `probe` is sent to find out.
  bool still_there(const std::string& probe);
  Headers headers_of(const Reply& reply) const;
  bool write(std::string_view text) { return socket_.write(text, limits_.write_time); }

  ClientSocket socket_;
  Responder& responder_;
  const ConnectionLimits& limits_;
  std::optional<Place> place_;
  std::string received_;  // that no request has taken yet
  RequestHead head_;      // of the request that is being answered
  Deadline next_probe_{};
};

}  // namespace penstock::serve
