// Listening sockets on the addresses of one name. key_server.h accepts the connections.
#pragma once

#include <netdb.h>

#include <vector>

namespace penstock::dist {

/// Listens on one port of every given address that belongs to this machine. Clients of a name with
/// several addresses may come to any of them.
class Listeners {
 public:
  /// @param port  0: any that is free on all of these addresses
  /// Throws Error, with the reason alone, if no address belongs to this machine, if the port is
  /// taken on one of them, and for an address that stands for all network cards.
  Listeners(const addrinfo* addresses, int port);
  ~Listeners();
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  const std::vector<int>& descriptors() const { return descriptors_; }
  int port() const { return port_; }

 private:
  enum class Outcome { listens, taken, nowhere };
  /// One try on all addresses. @param error  set to errno of the last address that failed
  Outcome listen(const std::vector<const addrinfo*>& addresses, int port, int& error);
  void close();

  std::vector<int> descriptors_;
  int port_ = 0;
};

}  // namespace penstock::dist
