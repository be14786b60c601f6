#include "penstock/serve/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The time that a connection waits for an answer or a request before it checks whether its client
/// is still there, and whether a new connection needs its slot.
constexpr milliseconds kLook{100};
/// The time between two probes of a client that sends no more.
constexpr milliseconds kProbe{1000};
/// The time for a client to read why it was refused.
constexpr milliseconds kLinger{2000};
/// The same time for a client without a slot; the next client without a slot waits for this
/// thread.
constexpr milliseconds kShortLinger{100};

/// The longest body that is copied behind its head, so that one packet may carry both.
constexpr std::size_t kCopied = 65536;

const std::string kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// The client left, so there is nobody to answer.
struct Gone {};

std::string as_chunk(std::string_view text) {
  return fmt::format("{:x}\r\n{}\r\n", text.size(), text);
}

}  // namespace

void HttpConnection::serve() {
  try {
    if (!slot_)
      return refuse(RequestError(503, "all connections are taken; try again later"),
                    {{"Retry-After", "1"}});
    for (;;) {
      ApiRequest request;
      try {
        if (read_request(request) == Next::end) return;
      } catch (const RequestError& error) {
        return refuse(error);
      }
      if (!send(responder_.answer(request)) || !head_.keeps_alive) return;
    }
  } catch (const Gone&) {
  }
}

void HttpConnection::read_more(Deadline deadline) {
  switch (socket_.read(received_, deadline, true)) {
    case ClientSocket::Read::some:
      return;
    case ClientSocket::Read::late:
      throw RequestError(408,
                         fmt::format("the request was not whole within {:.3g} s",
                                     std::chrono::duration<double>(limits_.request_time).count()));
    case ClientSocket::Read::stopped:
      throw RequestError(503, "the server stops");
    case ClientSocket::Read::end:
      throw Gone();
  }
}

bool HttpConnection::await_request(Deadline idle_since) {
  const Deadline end = idle_since + limits_.idle_time;
  slot_->wait(idle_since);
  for (bool last = false; !last;) {
    const Deadline now = Clock::now();
    // Read a last time without waiting, so that a request that has already come is answered.
    last = now >= end || slot_->gives_way(now);
    const ClientSocket::Read read =
        socket_.read(received_, last ? now : std::min(end, now + kLook), true);
    if (read == ClientSocket::Read::late) continue;
    slot_->work();
    return read == ClientSocket::Read::some;
  }
  return false;
}

HttpConnection::Next HttpConnection::read_request(ApiRequest& request) {
  head_ = {};
  RequestReader reader(limits_.head, limits_.body_bytes);
  const Deadline idle_since = Clock::now();
  Deadline deadline = idle_since + limits_.request_time;
  bool told = false;
  while (received_.erase(0, reader.take(received_)), !reader.over()) {
    if (reader.has_head() && !told) {
      head_ = reader.head();
      if (head_.expects_continue && received_.empty()) write(kContinue);
      told = true;
    }
    if (reader.begun() || !received_.empty()) {
      read_more(deadline);
      continue;
    }
    // Empty lines begin no request, so they do not lengthen the idle time.
    if (!await_request(idle_since)) return Next::end;
    deadline = Clock::now() + limits_.request_time;
  }
  head_ = reader.head();
  request.body = std::move(reader.body());
  // HEAD gets GET's answer without the body.
  request.method = head_.method == "HEAD" ? "GET" : head_.method;
  request.path = head_.path;
  request.authorization = head_.header("Authorization");
  request.content_type = head_.header("Content-Type");
  request.host = head_.header("Host");
  return Next::request;
}

Headers HttpConnection::headers_of(const Reply& reply) const {
  Headers out = {{"Content-Type", reply.type},
                 {"Connection", head_.keeps_alive ? "keep-alive" : "close"},
                 {"X-Content-Type-Options", "nosniff"}};
  out.insert(out.end(), reply.headers.begin(), reply.headers.end());
  return out;
}

bool HttpConnection::send(Reply reply) {
  if (!reply.stream) return send_whole(reply);
  return reply.as_it_comes ? send_stream(std::move(reply)) : wait_and_send(std::move(reply));
}

bool HttpConnection::send_whole(const Reply& reply) {
  Headers headers = headers_of(reply);
  headers.emplace_back("Content-Length", std::to_string(reply.body.size()));
  const std::string head = response_head(reply.status, headers);
  if (head_.method == "HEAD") return write(head);
  if (reply.body.size() > kCopied) return write(head) && write(reply.body);
  return write(head + reply.body);
}

bool HttpConnection::still_there(const std::string& probe) {
  const Peer peer = socket_.peer();
  if (peer != Peer::half_closed) return peer == Peer::there;
  // A probe tells a client that only sends no more from a client that is gone: the system of a
  // client that is gone answers with a reset.
  const auto now = Clock::now();
  if (now < next_probe_ || probe.empty()) return true;
  next_probe_ = now + kProbe;
  return write(probe);
}

bool HttpConnection::wait_and_send(Reply reply) {
  next_probe_ = {};
  const std::string probe = head_.http_1_0 ? std::string() : kContinue;
  while (reply.stream->next(reply.body, kLook))
    if (!still_there(probe)) return false;
  reply.status = reply.stream->status();
  return send_whole(reply);
}

bool HttpConnection::send_stream(Reply reply) {
  const bool chunked = !head_.http_1_0;  // in HTTP/1.0 the end of the connection ends the answer
  if (!chunked) head_.keeps_alive = false;
  const auto framed = [&](std::string text) { return chunked ? as_chunk(text) : text; };
  Headers headers = headers_of(reply);
  headers.emplace_back("Cache-Control", "no-store");
  if (chunked) headers.emplace_back("Transfer-Encoding", "chunked");
  if (!write(response_head(reply.status, headers))) return false;
  if (head_.method == "HEAD") return true;
  next_probe_ = {};
  const bool events = reply.type == "text/event-stream";
  for (bool more = true; more;) {
    std::string text;
    more = reply.stream->next(text, kLook);
    // Events may have a comment between them. The parts of another body come without a pause, and
    // sending the next one fails if the client is gone.
    if (!(events ? still_there(framed(":\n\n")) : socket_.peer() != Peer::gone)) return false;
    if (!text.empty() && !write(framed(std::move(text)))) return false;
  }
  return !chunked || write("0\r\n\r\n");
}

void HttpConnection::refuse(const RequestError& error, const Headers& headers) {
  responder_.refused(error.status());
  head_.keeps_alive = false;
  send_whole({.status = error.status(), .body = error_body(error), .headers = headers});
  socket_.linger(slot_ ? kLinger : kShortLinger);
}

}  // namespace penstock::serve
