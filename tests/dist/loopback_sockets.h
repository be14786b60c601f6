// Sockets of other programs on this machine's loopback, for the tests of ranks' connections.
#pragma once

#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::testing {

/// Listens on a free port of 127.0.0.1. The system lets programs connect; nothing answers them.
class LoopbackListener {
 public:
  LoopbackListener() : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(descriptor_, 8), 0);
    socklen_t size = sizeof address;
    ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~LoopbackListener() { close(); }
  LoopbackListener(const LoopbackListener&) = delete;
  LoopbackListener& operator=(const LoopbackListener&) = delete;

  int descriptor() const { return descriptor_; }
  int port() const { return port_; }
  /// The system then ends the connections that were not accepted.
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_, port_ = 0;
};

/// Connects to a port of 127.0.0.1.
inline int connected_to(int port) {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<in_port_t>(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int out = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(::connect(out, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return out;
}

/// Both ends of a connection on this machine.
struct LoopbackConnection {
  LoopbackConnection() {
    const LoopbackListener listener;
    one = connected_to(listener.port());
    other = ::accept(listener.descriptor(), nullptr, nullptr);
  }
  ~LoopbackConnection() {
    ::close(one);
    ::close(other);
  }
  LoopbackConnection(const LoopbackConnection&) = delete;
  LoopbackConnection& operator=(const LoopbackConnection&) = delete;
  /// Whether a byte still arrives.
  bool passes() const {
    char byte = 'x';
    return ::send(one, &byte, 1, MSG_NOSIGNAL) == 1 && ::recv(other, &byte, 1, 0) == 1;
  }
  int one = -1, other = -1;
};

/// Whether a program can listen on the address; without IPv6 none can on ::1.
inline bool is_of_this_machine(const addrinfo& address) {
  const int tried = ::socket(address.ai_family, SOCK_STREAM, 0);
  if (tried < 0) return false;
  const bool out = ::bind(tried, address.ai_addr, address.ai_addrlen) == 0;
  ::close(tried);
  return out;
}

}  // namespace penstock::testing
