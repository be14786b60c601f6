#include "penstock/serve/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "penstock/base/error.h"

namespace penstock::serve {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 512;  // connections that wait to be accepted
constexpr std::size_t kPiece = 65536;

int left_until(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

/// Waits until one of the descriptors has an event that it asks for, or until the deadline.
template <std::size_t n>
int wait_for(std::array<pollfd, n>& what, Deadline deadline) {
  int found = 0;
  do {
    found = ::poll(what.data(), what.size(), left_until(deadline));
  } while (found < 0 && errno == EINTR);
  return found;
}

void set(int socket, int level, int name, int value) {
  ::setsockopt(socket, level, name, &value, sizeof(value));
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}
Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

StopFlag::StopFlag() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  PENSTOCK_CHECK(event_.number() >= 0, "no event can be made: ", std::strerror(errno));
}

void StopFlag::raise() {
  raised_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_.number(), &one, sizeof(one));
}

ClientSocket::ClientSocket(Descriptor descriptor, const StopFlag& stop)
    : descriptor_(std::move(descriptor)), stop_(stop) {
  set(descriptor_.number(), IPPROTO_TCP, TCP_NODELAY, 1);  // sends each token at once
}

ClientSocket::Read ClientSocket::read(std::string& out, Deadline deadline, bool stops) {
  std::array<char, 16384> bytes;
  for (;;) {
    std::array<pollfd, 2> what{
        {{descriptor_.number(), POLLIN, 0}, {stops ? stop_.number() : -1, POLLIN, 0}}};
    if (wait_for(what, deadline) <= 0) return Read::late;
    if (what[0].revents != 0) {
      const ssize_t count = ::recv(descriptor_.number(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (count > 0) {
        out.append(bytes.data(), static_cast<std::size_t>(count));
        return Read::some;
      }
      if (count == 0 || (errno != EAGAIN && errno != EINTR)) return Read::end;
    }
    if (what[1].revents != 0) return Read::stopped;
  }
}

bool ClientSocket::write(std::string_view text, milliseconds patience) {
  while (!text.empty()) {
    std::array<pollfd, 1> what{{{descriptor_.number(), POLLOUT, 0}}};
    if (wait_for(what, Clock::now() + patience) <= 0) return false;
    const ssize_t count = ::send(descriptor_.number(), text.data(), std::min(text.size(), kPiece),
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

Peer ClientSocket::peer() const {
  pollfd what{descriptor_.number(), POLLRDHUP, 0};
  if (::poll(&what, 1, 0) <= 0) return Peer::there;
  if ((what.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return Peer::gone;
  return (what.revents & POLLRDHUP) != 0 ? Peer::half_closed : Peer::there;
}

void ClientSocket::linger(milliseconds patience) {
  ::shutdown(descriptor_.number(), SHUT_WR);
  const Deadline deadline = Clock::now() + patience;
  std::string discarded;
  while (read(discarded, deadline, true) == Read::some) discarded.clear();
}

Listener::Listener(const std::string& host, int port) {
  const addrinfo hints{.ai_flags = AI_PASSIVE, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  const int wrong = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  PENSTOCK_CHECK(wrong == 0, "host ", host, ": ", ::gai_strerror(wrong));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    Descriptor socket(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                               one->ai_protocol));
    // A restarted server gets its port back at once. A port that another process listens at is
    // still refused.
    set(socket.number(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (::bind(socket.number(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::listen(socket.number(), kBacklog) == 0) {
      descriptor_ = std::move(socket);
      break;
    }
    error = errno;
  }
  PENSTOCK_CHECK(descriptor_.number() >= 0, "port ", port, " of ", host,
                 " cannot be listened at: ", std::strerror(error));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  ::getsockname(descriptor_.number(), reinterpret_cast<sockaddr*>(&own), &size);
  port_ = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(own).sin_port);
}

std::optional<Descriptor> Listener::accept(const StopFlag& stop) const {
  while (!stop.raised()) {
    std::array<pollfd, 2> what{{{descriptor_.number(), POLLIN, 0}, {stop.number(), POLLIN, 0}}};
    wait_for(what, Clock::now() + std::chrono::minutes(10));
    if (what[1].revents != 0) break;
    if (what[0].revents == 0) continue;
    Descriptor client(::accept4(descriptor_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.number() >= 0) return client;
    // Too many files are open, or the client left meanwhile. Later clients may succeed.
    if (errno == EMFILE || errno == ENFILE) ::usleep(50'000);
  }
  return std::nullopt;
}

}  // namespace penstock::serve
