#include "penstock/dist/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "penstock/base/error.h"

namespace penstock::dist {
namespace {

struct Found {
  Addresses addresses;
  std::string reason;  ///< why there are none; "" if there are some
};

Found find_addresses(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code == 0) return {Addresses(found, &::freeaddrinfo), ""};
  return {Addresses(nullptr, &::freeaddrinfo),
          code == EAI_SYSTEM ? last_error() : ::gai_strerror(code)};
}

}  // namespace

std::string why_unknown(const std::string& address) { return find_addresses(address, 0).reason; }

Addresses resolve_address(const std::string& address, int port, std::chrono::milliseconds timeout,
                          const std::function<void()>& waiting) {
  constexpr std::chrono::milliseconds kPause{200};
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    Found found = find_addresses(address, port);
    if (found.reason.empty()) return std::move(found.addresses);
    PENSTOCK_CHECK(std::chrono::steady_clock::now() < end, "MASTER_ADDR = ", address, ": ",
                   found.reason, "; name rank 0's machine by an address that this one knows");
    if (waiting) waiting();
    std::this_thread::sleep_for(kPause);
  }
}

bool connected_to_itself(int descriptor) {
  sockaddr_storage mine{}, theirs{};
  socklen_t size = sizeof mine, their_size = sizeof theirs;
  return ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&mine), &size) == 0 &&
         ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&theirs), &their_size) == 0 &&
         size == their_size && std::memcmp(&mine, &theirs, size) == 0;
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

void take_turns(int descriptor) {
  const timeval second{.tv_sec = 1, .tv_usec = 0}, patience{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

Received receive_all(int descriptor, char* bytes, std::size_t count, std::int64_t turns) {
  std::int64_t silent = 0;
  while (count > 0) {
    const auto now = ::recv(descriptor, bytes, count, 0);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      // Turns are counted instead of reading a clock, because a stopped process receives nothing.
      if (++silent == turns) return Received::nothing;
      continue;
    }
    if (now <= 0) return Received::hung_up;
    silent = 0;
    bytes += now;
    count -= static_cast<std::size_t>(now);
  }
  return Received::all;
}

std::set<int> connections() {
  std::set<int> out;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int descriptor = std::stoi(entry.path().filename());
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
      out.insert(descriptor);
  }
  return out;
}

void watch_machine(int descriptor) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(descriptor, level, option, &value, sizeof value);
  };
  constexpr int kAgain = 5, kTimes = 3, kSeconds = static_cast<int>(kMachineLost.count());
  set(IPPROTO_TCP, TCP_KEEPIDLE, kSeconds - kTimes * kAgain);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kAgain);
  set(IPPROTO_TCP, TCP_KEEPCNT, kTimes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * kSeconds);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
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
