// The table of keys and values by which ranks find each other and later send heartbeats. One
// process hosts it; all use it over TCP. It holds a few small values and no training data.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/dist/heartbeat_table.h"
#include "penstock/dist/listeners.h"
#include "penstock/dist/sockets.h"
#include "penstock/dist/wake_event.h"

namespace penstock::dist {

using KeyValues = std::map<std::string, std::string>;

/// Keeps the table during its life. It listens on the addresses of one name alone, those that this
/// machine has. Whoever can connect to them can read and write the table: there is neither
/// encryption nor a password. It has a connection for each client, so it raises the process's limit
/// of open files to the hard limit. A client for which no file is left is told so. No client makes
/// the others wait: one that does not read its answers gets no further ones until it does, and one
/// that does not greet is hung up on.
class KeyServer {
 public:
  /// @param port  0: any free port.  Throws Error if it cannot listen there.
  /// @param values  what the table holds before anybody asks it
  /// @param timeout, waiting  for a name that is not known yet (resolve_address())
  KeyServer(const std::string& address, int port, KeyValues values = {},
            std::chrono::milliseconds timeout = {}, const std::function<void()>& waiting = nullptr);
  ~KeyServer();
  KeyServer(const KeyServer&) = delete;
  KeyServer& operator=(const KeyServer&) = delete;
  int port() const { return listeners_.port(); }

 private:
  struct Connection {
    int descriptor = -1;
    HeartbeatTable::Time since;
    bool greeted = false;
    std::string received = {}, unsent = {};
  };
  void serve();
  void accept_one(int listener);
  /// Accepts a connection in place of the spare file, tells the client why, and closes it.
  /// @param error  errno of the attempt to accept it
  void turn_away(int listener, int error);
  // These return whether the connection stays open.
  bool attend(Connection& connection);
  bool receive(Connection& connection);
  /// Answers the received requests as long as the client reads the answers.
  bool answer_all(Connection& connection);
  /// Sends as many bytes as the system accepts.
  static bool send_unsent(Connection& connection);
  std::string answer(char operation, const std::string& key, const std::string& value);
  /// Answers a rank that reports that it is alive, that it ends, or that a rank is lost.
  std::string answer_rank(char operation, const std::string& said, int connection);

  Listeners listeners_;
  WakeEvent wake_;
  int spare_ = -1;     // an open file, closed to accept a connection that is then turned away
  bool full_ = false;  // not even that was possible: the listeners rest for one turn
  std::vector<Connection> connections_;
  KeyValues values_;
  HeartbeatTable heartbeats_;
  std::thread thread_;  // last: it uses the others
};

/// The table cannot be reached.
class LostTable : public Error {
 public:
  using Error::Error;
};

/// The process that hosts the table does not answer, although the connection is open.
class SilentTable : public LostTable {
 public:
  using LostTable::LostTable;
};

/// The process that hosted the table has announced its normal end.
class TableEnded : public LostTable {
 public:
  TableEnded(const std::string& message, std::optional<SilentRank> silent)
      : LostTable(message), silent_(silent) {}
  /// The rank with the longest silence at that time.
  const std::optional<SilentRank>& silent() const { return silent_; }

 private:
  std::optional<SilentRank> silent_;
};

struct KeyClientOptions {
  /// A prefix of all keys of this client. Clients with another prefix do not see them.
  std::string prefix = "";
  /// How long to wait for a table that does not answer; 0: forever.
  std::chrono::seconds patience{0};
  /// Of the addresses that it tries: AF_INET, AF_INET6, or AF_UNSPEC for all.
  int family = AF_UNSPEC;
  /// Called repeatedly until the client is connected.
  std::function<void()> connecting = nullptr;
};

/// A rank's connection to the table. Thread-safe.
class KeyClient {
 public:
  using Milliseconds = std::chrono::milliseconds;
  /// Connects, with retries until `timeout`. Throws Error that names the address. All operations
  /// throw LostTable if the connection ended: SilentTable if the table did not answer within
  /// `patience`, TableEnded if its process announced its end.
  KeyClient(const std::string& address, int port, Milliseconds timeout,
            KeyClientOptions options = {});
  ~KeyClient();
  KeyClient(const KeyClient&) = delete;
  KeyClient& operator=(const KeyClient&) = delete;

  void set(const std::string& key, const std::string& value);
  std::optional<std::string> get(const std::string& key);
  /// Waits for a key to be set and returns its value; returns nothing after `timeout`.
  std::optional<std::string> wait(const std::string& key, Milliseconds timeout);
  /// Adds to the number stored under the key and returns the sum. The number starts at 0. Throws
  /// Error, and changes nothing, if the sum has more than 64 bits.
  std::int64_t add(const std::string& key, std::int64_t value);
  bool remove(const std::string& key);
  std::int64_t size();
  /// Sends a heartbeat. Returns the lost rank, or the rank with the longest silence.
  SilentRank beat(int rank);
  /// Announces this rank's normal end.
  void end(int rank);
  /// Reports a lost rank to all.
  void lose(const SilentRank& lost);
  /// The same for a table that does not answer; it reads the message when it resumes. The client
  /// cannot be used afterwards.
  void leave_word(const SilentRank& lost) noexcept;
  enum class Heard { nothing, woken, ended, hung_up };
  /// Waits until the timeout, until `wake` is readable, or until the table ends: `ended` if its
  /// process announced the end, `hung_up` if it did not.
  Heard listen(Milliseconds timeout, int wake);
  /// This machine's address on the route to the server.
  std::string local_address() const;
  /// Whether that is an address of IPv4.
  bool by_ipv4() const;

 private:
  std::optional<std::string> ask(char operation, const std::string& key, const std::string& value);
  std::int64_t number(char operation, const std::string& key, const std::string& value);
  std::string request(char operation, const std::string& key, const std::string& value) const;
  Received receive(char* bytes, std::size_t count) const;
  sockaddr_storage own_end() const;

  std::mutex mutex_;
  std::string server_;
  KeyClientOptions options_;
  int descriptor_ = -1;
};

}  // namespace penstock::dist
