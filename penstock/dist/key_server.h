// The table of keys and values by which ranks find each other and later send heartbeats. One
// process keeps it; all ask it over TCP. It holds a few small values and no training data.
#pragma once

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
#include "penstock/dist/beats.h"
#include "penstock/dist/sockets.h"

namespace penstock::dist {

/// Keeps the table during its life. It listens on one address alone. Whoever can connect to that
/// address can read and write the table: there is neither encryption nor a password.
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
  /// @return whether the connection stays open
  bool receive(Connection& connection);
  bool answer_all(Connection& connection);
  std::string answer(char operation, const std::string& key, const std::string& value);
  /// Of a rank that says that it is there, that it ends, or that one is lost.
  std::string answer_rank(char operation, const std::string& said, int connection);

  int listener_ = -1, wake_ = -1, port_ = 0;
  std::vector<Connection> connections_;
  std::map<std::string, std::string> values_;
  Beats beats_;
  std::thread thread_;  // last: it uses the others
};

/// The table is out of reach.
class LostTable : public Error {
 public:
  using Error::Error;
};

/// The process that keeps the table does not answer, though the connection stands.
class SilentTable : public LostTable {
 public:
  using LostTable::LostTable;
};

/// The process that kept the table has ended in order.
class TableEnded : public LostTable {
 public:
  TableEnded(const std::string& message, std::optional<SilentRank> silent)
      : LostTable(message), silent_(silent) {}
  /// Who had been silent for longest by then.
  const std::optional<SilentRank>& silent() const { return silent_; }

 private:
  std::optional<SilentRank> silent_;
};

struct KeyClientOptions {
  std::string prefix = "";           ///< of all its keys: clients of another prefix do not see them
  std::chrono::seconds patience{0};  ///< with a table that does not answer; 0: without end
  /// Called again and again until it is connected.
  std::function<void()> connecting = nullptr;
};

/// One rank's view of the table. Thread-safe.
class KeyClient {
 public:
  using Milliseconds = std::chrono::milliseconds;
  /// Connects, and tries again until then. Throws Error that names the address. All operations
  /// throw LostTable: SilentTable once their patience is over, TableEnded, or where it hung up.
  KeyClient(const std::string& address, int port, Milliseconds timeout,
            KeyClientOptions options = {});
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
  /// Sends a heartbeat. Returns the lost rank, or the rank with the longest silence.
  SilentRank beat(int rank);
  /// Says goodbye for this rank.
  void end(int rank);
  /// Reports a lost rank to all.
  void lose(const SilentRank& lost);
  /// The same to a table that does not answer, which reads it should it go on. Nothing can be asked
  /// behind it.
  void leave_word(const SilentRank& lost) noexcept;
  enum class Heard { nothing, woken, ended, hung_up };
  /// Waits until the time is over, `wake` can be read, or the table ends: by its process's own
  /// will, or without a word.
  Heard listen(Milliseconds timeout, int wake);
  /// This machine's address on the way to the server.
  std::string local_address() const;

 private:
  std::optional<std::string> ask(char operation, const std::string& key, const std::string& value);
  std::string request(char operation, const std::string& key, const std::string& value) const;
  Received receive(char* bytes, std::size_t count) const;

  std::mutex mutex_;
  std::string server_;
  KeyClientOptions options_;
  int descriptor_ = -1;
};

}  // namespace penstock::dist
