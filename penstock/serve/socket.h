// Sockets with deadlines: a listening socket and clients' sockets. http_connection.h implements the
// protocol.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::serve {

using Deadline = std::chrono::steady_clock::time_point;

/// A file descriptor. The destructor closes it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int number() const { return number_; }

 private:
  int number_;
};

/// A flag that any thread can raise once. Threads wait for the flag and their sockets together.
class StopFlag {
 public:
  StopFlag();
  void raise();
  bool raised() const { return raised_; }
  /// A descriptor that is readable once the flag is raised.
  int number() const { return event_.number(); }

 private:
  Descriptor event_;
  std::atomic<bool> raised_ = false;
};

/// The state of a client's side of a connection, as the system knows it.
enum class Peer {
  there,
  half_closed,  ///< it sends no more; it may still read, or may have gone
  gone
};

/// A connection with a client. Only one thread may use it at a time.
class ClientSocket {
 public:
  /// REQUIRES: `stop` outlives the socket.
  ClientSocket(Descriptor descriptor, const StopFlag& stop);

  enum class Read { some, end, late, stopped };
  /// Waits for bytes and appends them to `out`. `end`: the client sends no more bytes.
  /// @param stops  whether the flag ends the wait
  Read read(std::string& out, Deadline deadline, bool stops);
  /// Sends all of `text`. The client must accept some bytes of each 64 KiB piece within `patience`.
  /// @return whether the client accepted all of it
  bool write(std::string_view text, std::chrono::milliseconds patience);
  Peer peer() const;
  /// Closes the sending side and continues to read for up to `patience`, so that the client gets
  /// the last answer. Closing the socket with unread bytes would discard that answer.
  void linger(std::chrono::milliseconds patience);

 private:
  Descriptor descriptor_;
  const StopFlag& stop_;
};

/// A listening port.
class Listener {
 public:
  /// @param port  0: any free port
  /// Throws Error if the host is not this machine or the port is in use.
  Listener(const std::string& host, int port);
  int port() const { return port_; }
  /// The next client; nothing once the flag is raised. Several threads may wait.
  std::optional<Descriptor> accept(const StopFlag& stop) const;

 private:
  Descriptor descriptor_;
  int port_ = 0;
};

}  // namespace penstock::serve
