// Sockets with deadlines: one that listens, and those of clients. What is said over them is
// http_connection.h's.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::serve {

using Deadline = std::chrono::steady_clock::time_point;

/// A descriptor that is closed with its owner.
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

/// A flag that any thread raises once, and that threads wait for beside their sockets.
class StopFlag {
 public:
  StopFlag();
  void raise();
  bool raised() const { return raised_; }
  /// Readable once raised.
  int number() const { return event_.number(); }

 private:
  Descriptor event_;
  std::atomic<bool> raised_ = false;
};

/// A client's side of a connection, as far as the system knows it.
enum class Peer {
  there,
  half_closed,  ///< it sends no more; it may still read, or may be gone
  gone
};

/// A connection with a client. One thread at a time.
class ClientSocket {
 public:
  /// `stop` outlives it.
  ClientSocket(Descriptor descriptor, const StopFlag& stop);

  enum class Read { some, end, late, stopped };
  /// Appends to `out` what has come, after waiting for it. `end`: nothing will come any more.
  /// @param stops  whether the flag ends the waiting
  Read read(std::string& out, Deadline deadline, bool stops);
  /// Sends all of it; of each piece of 64 KiB something must go within `patience`.
  /// @return whether the client took it
  bool write(std::string_view text, std::chrono::milliseconds patience);
  Peer peer() const;
  /// Sends no more, and reads on for a while so that the client sees what was said before the
  /// connection goes: closing with unread bytes would take it away.
  void linger(std::chrono::milliseconds patience);

 private:
  Descriptor descriptor_;
  const StopFlag& stop_;
};

/// A port that is listened at.
class Listener {
 public:
  /// @param port  0: any that is free
  /// Throws Error where the host is not this machine or the port is taken.
  Listener(const std::string& host, int port);
  int port() const { return port_; }
  /// The next client; nothing once the flag is raised. Several threads may wait.
  std::optional<Descriptor> accept(const StopFlag& stop) const;

 private:
  Descriptor descriptor_;
  int port_ = 0;
};

}  // namespace penstock::serve
