#include "penstock/serve/http_server.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

namespace penstock::serve {

HttpServer::HttpServer(Responder& responder, const HttpOptions& options)
    : responder_(responder),
      options_(options),
      slots_(options.connections, options.slots),
      listener_(options.host, options.port) {
  const std::scoped_lock lock(mutex_);
  grow();
}

HttpServer::~HttpServer() { stop(); }

void HttpServer::grow() {
  if (waiting_ > 0 || std::ssize(threads_) > options_.connections) return;
  try {
    threads_.emplace_back([this] { run(); });
    ++waiting_;
  } catch (const std::exception&) {
    // The system has no more threads, or no memory for one. The existing threads go on.
    if (threads_.empty()) throw;
  }
  // One thread has no slot, so that it can accept new connections while all others are idle.
  const std::int64_t others = std::ssize(threads_) - 1;
  slots_.resize(std::min(options_.connections, std::max<std::int64_t>(1, others)));
}

void HttpServer::run() {
  while (auto client = listener_.accept(stop_)) {
    {
      const std::scoped_lock lock(mutex_);
      --waiting_;
      if (!stop_.raised()) grow();
    }
    try {
      std::optional<ConnectionSlot> slot = slots_.take();
      if (slot || !stop_.raised())
        HttpConnection(ClientSocket(std::move(*client), stop_), responder_, options_.limits,
                       std::move(slot))
            .serve();
    } catch (const std::exception&) {  // this connection ends, the server goes on
    }
    const std::scoped_lock lock(mutex_);
    ++waiting_;
  }
}

void HttpServer::stop() {
  stop_.raise();
  slots_.close();
  std::vector<std::thread> ending;
  {
    const std::scoped_lock lock(mutex_);
    ending.swap(threads_);
  }
  for (std::thread& thread : ending) thread.join();
}

}  // namespace penstock::serve
