// Where ranks find each other before they are connected: a table of keys and values, kept by one
// process and asked by all over TCP. For a few small values at the start; no training data.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace penstock::dist {

/// Keeps the table while it lives. It listens on one address alone, and whoever can connect to that
/// address can read and write the table: nothing is encrypted, and no password is asked for.
class KeyServer {
 public:
  /// @param port  0: one that is free.  Throws Error where it cannot listen there.
  KeyServer(const std::string& address, int port);
  ~KeyServer();
  KeyServer(const KeyServer&) = delete;
  KeyServer& operator=(const KeyServer&) = delete;
  int port() const { return port_; }

 private:
  struct Connection {
    int descriptor = -1;
    bool greeted = false;
    std::string received = {};
  };
  void serve();
  void accept_one();
  /// Whether the connection goes on.
  bool receive(Connection& connection);
  bool answer_all(Connection& connection);
  std::string answer(char operation, const std::string& key, const std::string& value);

  int listener_ = -1, wake_ = -1, port_ = 0;
  std::vector<Connection> connections_;
  std::map<std::string, std::string> values_;
  std::thread thread_;  // last: it uses the others
};

/// One rank's view of the table. Thread-safe.
class KeyClient {
 public:
  using Milliseconds = std::chrono::milliseconds;
  /// Connects, and tries again until then. Throws Error that names the address.
  /// @param prefix  of all its keys: clients of another prefix do not see them
  KeyClient(const std::string& address, int port, Milliseconds timeout, std::string prefix = "");
  ~KeyClient();
  KeyClient(const KeyClient&) = delete;
  KeyClient& operator=(const KeyClient&) = delete;

  void set(const std::string& key, const std::string& value);
  std::optional<std::string> get(const std::string& key);
  /// The value of a key that someone sets before the time is over, or nothing.
  std::optional<std::string> wait(const std::string& key, Milliseconds timeout);
  /// Adds to the number under the key, which begins at 0, and returns the sum.
  std::int64_t add(const std::string& key, std::int64_t value);
  bool remove(const std::string& key);
  std::int64_t size();
  /// This machine's address on the way to the server.
  std::string local_address() const;

 private:
  std::optional<std::string> ask(char operation, const std::string& key, const std::string& value);

  std::mutex mutex_;
  std::string server_, prefix_;
  int descriptor_ = -1;
};

}  // namespace penstock::dist
