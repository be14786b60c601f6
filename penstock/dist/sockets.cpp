#include "penstock/dist/sockets.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "penstock/base/error.h"

namespace penstock::dist {

Addresses resolve_address(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  PENSTOCK_CHECK(code == 0, "MASTER_ADDR = ", address, ": ", ::gai_strerror(code),
                 "; name rank 0's machine by an address that this one knows");
  return {found, &::freeaddrinfo};
}

bool send_all(int descriptor, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const auto now = ::send(descriptor, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    sent += static_cast<std::size_t>(now);
  }
  return true;
}

bool receive_all(int descriptor, char* bytes, std::size_t count) {
  while (count > 0) {
    const auto now = ::recv(descriptor, bytes, count, 0);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    bytes += now;
    count -= static_cast<std::size_t>(now);
  }
  return true;
}

std::string length_bytes(std::size_t length) {
  const auto value = static_cast<std::uint32_t>(length);
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

std::uint32_t length_from(const char* bytes) {
  std::uint32_t out = 0;
  std::memcpy(&out, bytes, sizeof out);
  return out;
}

std::string last_error() { return std::strerror(errno); }

}  // namespace penstock::dist
