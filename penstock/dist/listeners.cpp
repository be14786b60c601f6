#include "penstock/dist/listeners.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "penstock/base/error.h"

namespace penstock::dist {
namespace {

/// The port in a socket address of IPv4 or IPv6, in the network's byte order.
in_port_t& port_in(sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                       : reinterpret_cast<sockaddr_in&>(address).sin_port;
}

int port_of(int listener) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(port_in(bound));
}

bool is_same(const addrinfo& one, const addrinfo& other) {
  return one.ai_addrlen == other.ai_addrlen &&
         std::memcmp(one.ai_addr, other.ai_addr, one.ai_addrlen) == 0;
}

bool is_all_cards(const addrinfo& address) {
  if (address.ai_family == AF_INET6)
    return IN6_IS_ADDR_UNSPECIFIED(
        &reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr);
  return reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr.s_addr == INADDR_ANY;
}

/// /etc/hosts may give a name the same address twice.
std::vector<const addrinfo*> distinct(const addrinfo* addresses) {
  std::vector<const addrinfo*> out;
  for (const addrinfo* at = addresses; at; at = at->ai_next)
    if (std::ranges::none_of(out, [&](const addrinfo* other) { return is_same(*at, *other); }))
      out.push_back(at);
  return out;
}

/// A listening socket; -1, with the reason in errno, if there can be none. It does not block, since
/// a client may have gone again when it is accepted.
int listen_at(const addrinfo& address, int port) {
  sockaddr_storage at{};
  std::memcpy(&at, address.ai_addr, std::min<std::size_t>(address.ai_addrlen, sizeof at));
  port_in(at) = htons(static_cast<std::uint16_t>(port));
  const int out = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  if (out < 0) return -1;
  ::setsockopt(out, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.ai_family == AF_INET6) ::setsockopt(out, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  if (::bind(out, reinterpret_cast<sockaddr*>(&at), address.ai_addrlen) == 0 &&
      ::listen(out, 1024) == 0)
    return out;
  const int error = errno;
  ::close(out);
  errno = error;
  return -1;
}

}  // namespace

Listeners::Listeners(const addrinfo* addresses, int port) {
  constexpr int kTries = 50;
  const std::vector<const addrinfo*> all = distinct(addresses);
  for (const addrinfo* address : all)
    PENSTOCK_CHECK(!is_all_cards(*address), "the address stands for all network cards");
  int error = 0;
  Outcome outcome = listen(all, port, error);
  // The port that the system chose for the first address may be taken on another one.
  for (int tried = 1; outcome == Outcome::taken && port == 0 && tried < kTries; ++tried)
    outcome = listen(all, port, error);
  PENSTOCK_CHECK(outcome == Outcome::listens, std::strerror(error));
}

Listeners::~Listeners() { close(); }

Listeners::Outcome Listeners::listen(const std::vector<const addrinfo*>& addresses, int port,
                                     int& error) {
  port_ = port;
  for (const addrinfo* address : addresses) {
    const int out = listen_at(*address, port_);
    if (out >= 0) {
      descriptors_.push_back(out);
      port_ = port_of(out);
      continue;
    }
    error = errno;
    if (error != EADDRINUSE) continue;
    close();
    return Outcome::taken;
  }
  return descriptors_.empty() ? Outcome::nowhere : Outcome::listens;
}

void Listeners::close() {
  for (const int descriptor : descriptors_) ::close(descriptor);
  descriptors_.clear();
}

}  // namespace penstock::dist
