#include "penstock/serve/http_server.h"

#ifdef PENSTOCK_HAVE_HTTPLIB
#include <httplib.h>
#endif

#include <algorithm>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/serve/request_error.h"

namespace penstock::serve {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

#ifdef PENSTOCK_HAVE_HTTPLIB

namespace {

/// How long a stream looks for tokens before it looks whether its client is still there.
constexpr std::chrono::milliseconds kLook{100};
/// Connections that may wait to be taken.
constexpr int kBacklog = 256;

void send(httplib::Response& response, Reply reply) {
  response.status = reply.status;
  if (!reply.stream) return response.set_content(reply.body, reply.type);
  // Shared: the library copies what it calls.
  auto stream = std::make_shared<std::unique_ptr<ReplyStream>>(std::move(reply.stream));
  response.set_header("Cache-Control", "no-store");
  response.set_chunked_content_provider(
      reply.type,
      [stream](std::size_t, httplib::DataSink& sink) {
        std::string out;
        const bool more = (*stream)->next(out, kLook);
        if (!sink.is_writable()) return false;
        if (!out.empty() && !sink.write(out.data(), out.size())) return false;
        if (!more) sink.done();
        return true;
      },
      [stream](bool) { stream->reset(); });
}

}  // namespace

struct HttpServer::State {
  httplib::Server server;
  int port = 0;
  int socket = -1;  // that listens
};

bool can_serve_http() { return true; }

HttpServer::HttpServer(Api& api, const HttpOptions& options) : state_(std::make_unique<State>()) {
  httplib::Server& server = state_->server;
  server.new_task_queue = [count = options.connections] {
    return new httplib::ThreadPool(static_cast<std::size_t>(count));
  };
  // Not shared with another process, as the library's own setting would have it.
  server.set_socket_options([this](auto socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    state_->socket = socket;
  });
  server.set_tcp_nodelay(true);
  server.set_payload_max_length(static_cast<std::size_t>(options.body_bytes));
  server.set_read_timeout(options.io_timeout.count());
  server.set_write_timeout(options.io_timeout.count());
  server.set_keep_alive_timeout(5);
  server.set_keep_alive_max_count(1000);
  const auto handle = [&api](const httplib::Request& request, httplib::Response& response) {
    // Of what HEAD gets the library sends the head alone.
    send(response, api.answer({.method = request.method == "HEAD" ? "GET" : request.method,
                               .path = request.path,
                               .body = request.body,
                               .authorization = request.get_header_value("Authorization"),
                               .content_type = request.get_header_value("Content-Type"),
                               .host = request.get_header_value("Host")}));
  };
  const char* const any = ".*";
  server.Get(any, handle).Post(any, handle).Put(any, handle).Patch(any, handle);
  server.Delete(any, handle).Options(any, handle);
  // What the library refuses by itself: bodies that are too large, requests that are none.
  server.set_error_handler([&api](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty()) return;
    api.metrics().answered("other", response.status);
    response.set_content(
        error_body(response.status,
                   response.status == 413 ? "the body is too large" : "the request cannot be read"),
        "application/json");
  });
  state_->port = options.port == 0 ? server.bind_to_any_port(options.host)
                 : server.bind_to_port(options.host, options.port) ? options.port
                                                                   : -1;
  PENSTOCK_CHECK(state_->port > 0, "port ", options.port, " of ", options.host,
                 " cannot be listened at: another program has it, or the host is not this one");
  // The library lets 5 connections wait to be taken; more that come at once would be refused.
  ::listen(state_->socket, kBacklog);
}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return state_->port; }
void HttpServer::run() { state_->server.listen_after_bind(); }
void HttpServer::stop() { state_->server.stop(); }

#else

struct HttpServer::State {};

bool can_serve_http() { return false; }

HttpServer::HttpServer(Api&, const HttpOptions&) {
  fail("this build cannot serve: install libcpp-httplib-dev and build again");
}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return 0; }
void HttpServer::run() {}
void HttpServer::stop() {}

#endif

}  // namespace penstock::serve
