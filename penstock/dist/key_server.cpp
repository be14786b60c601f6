#include "penstock/dist/key_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/dist/open_files.h"
#include "penstock/dist/sockets.h"

namespace penstock::dist {
namespace {

using Clock = std::chrono::steady_clock;

/// Operation, length of the key, length of the value.
constexpr std::size_t kHeader = 1 + 2 * sizeof(std::uint32_t);
/// How often the thread reads the clock, and the gap that shows that this process was stopped.
constexpr auto kLook = std::chrono::milliseconds(1000), kHalted = 2 * kLook;
/// How long a connection may stay without a greeting.
constexpr std::chrono::seconds kGreetsWithin{30};

int open_spare() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

/// Listens on the addresses of a name that belong to this machine.
Listeners listen_on(const std::string& address, int port, std::chrono::milliseconds timeout,
                    const std::function<void()>& waiting) {
  raise_open_files();
  const Addresses addresses = resolve_address(address, port, timeout, waiting);
  try {
    return Listeners(addresses.get(), port);
  } catch (const Error& error) {
    fail("rank 0 cannot listen on MASTER_ADDR = ", address, ", MASTER_PORT = ", port, ": ",
         error.what(), "; the address must be one of this machine's, and the port free");
  }
}

std::string reply(char kind, const std::string& value) {
  return kind + length_bytes(value.size()) + value;
}
std::string found(const std::string& value) { return reply(kFound, value); }
std::string absent() { return reply(kAbsent, ""); }

/// The text that KeyClient reads; "" if no rank was heard.
std::string text_of(const std::optional<SilentRank>& silent) {
  return silent ? text_of(*silent) : "";
}

}  // namespace

KeyServer::KeyServer(const std::string& address, int port, KeyValues values,
                     std::chrono::milliseconds timeout, const std::function<void()>& waiting)
    : listeners_(listen_on(address, port, timeout, waiting)),
      spare_(open_spare()),
      values_(std::move(values)),
      thread_([this] { serve(); }) {}

KeyServer::~KeyServer() {
  wake_.raise();
  thread_.join();
  // Ranks that have not yet been told of the lost rank would wait for it forever.
  const std::string last_word = reply(kEnds, text_of(heartbeats_.most_silent(Clock::now())));
  for (Connection& connection : connections_) {
    connection.unsent += last_word;
    send_unsent(connection);
    ::close(connection.descriptor);
  }
  if (spare_ >= 0) ::close(spare_);
}

void KeyServer::serve() {
  auto looked = Clock::now();
  while (true) {
    // poll() leaves out a negative descriptor.
    std::vector<pollfd> watched = {{wake_.descriptor(), POLLIN, 0}};
    for (const int listener : listeners_.descriptors())
      watched.push_back({full_ ? -1 : listener, POLLIN, 0});
    full_ = false;
    const std::size_t first = watched.size();
    for (const Connection& connection : connections_) {
      const bool all_sent = connection.unsent.empty();
      watched.push_back(
          {connection.descriptor, static_cast<short>(all_sent ? POLLIN : POLLOUT), 0});
    }
    const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(kLook.count()));
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - looked);
    looked += since;
    if (since > kHalted) heartbeats_.skip(since);
    if (ready < 0) continue;
    if (watched[0].revents != 0) return;
    std::vector<Connection> kept;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      Connection& connection = connections_[i];
      const bool patient = connection.greeted || looked - connection.since < kGreetsWithin;
      if (watched[first + i].revents == 0 ? patient : attend(connection)) {
        kept.push_back(std::move(connection));
      } else {
        heartbeats_.hung_up(connection.descriptor);
        ::close(connection.descriptor);
      }
    }
    connections_ = std::move(kept);
    for (std::size_t i = 1; i < first; ++i)
      if (watched[i].revents != 0) accept_one(watched[i].fd);
  }
}

void KeyServer::accept_one(int listener) {
  const int descriptor = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor < 0) {
    if (too_many_open_files(errno)) turn_away(listener, errno);
    return;
  }
  connections_.push_back({.descriptor = descriptor, .since = Clock::now()});
}

void KeyServer::turn_away(int listener, int error) {
  if (spare_ >= 0) ::close(spare_);
  const int descriptor = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  full_ = descriptor < 0;
  if (!full_) {
    send_all(descriptor, reply(kFull, open_files_text(error)));
    // Bytes that nobody has read would make the system withdraw the answer.
    ::shutdown(descriptor, SHUT_WR);
    char unread[4096];
    ::recv(descriptor, unread, sizeof unread, MSG_DONTWAIT);
    ::close(descriptor);
  }
  spare_ = open_spare();
}

bool KeyServer::attend(Connection& connection) {
  if (connection.unsent.empty()) return receive(connection);
  return send_unsent(connection) && answer_all(connection);
}

bool KeyServer::send_unsent(Connection& connection) {
  std::string& text = connection.unsent;
  while (!text.empty()) {
    const auto count =
        ::send(connection.descriptor, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    text.erase(0, static_cast<std::size_t>(count));
  }
  return true;
}

bool KeyServer::receive(Connection& connection) {
  char bytes[4096];
  const auto count = ::recv(connection.descriptor, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0) return false;
  connection.received.append(bytes, static_cast<std::size_t>(count));
  if (!connection.greeted) {
    const std::string& text = connection.received;
    const std::size_t known = std::min(text.size(), kGreetingBytes);
    if (text.compare(0, known, kGreeting, known) != 0) return false;
    if (known < kGreetingBytes) return true;
    connection.greeted = true;
    connection.received.erase(0, kGreetingBytes);
  }
  return answer_all(connection);
}

bool KeyServer::answer_all(Connection& connection) {
  std::string& text = connection.received;
  while (connection.unsent.empty() && text.size() >= kHeader) {
    const std::size_t key = length_from(text.data() + 1),
                      value = length_from(text.data() + 1 + sizeof(std::uint32_t));
    if (key > kLongest || value > kLongest) return false;
    if (text.size() < kHeader + key + value) return true;
    const char operation = text[0];
    const std::string name = text.substr(kHeader, key);
    connection.unsent = operation == kBeat || operation == kEnd || operation == kLost
                            ? answer_rank(operation, name, connection.descriptor)
                            : answer(operation, name, text.substr(kHeader + key, value));
    text.erase(0, kHeader + key + value);
    if (!send_unsent(connection)) return false;
  }
  return true;
}

std::string KeyServer::answer_rank(char operation, const std::string& said, int connection) {
  if (operation == kLost) {
    const auto lost = silent_from(said);
    if (lost && lost->lost()) heartbeats_.lose(*lost);
    return found("");
  }
  const int rank = static_cast<int>(std::strtol(said.c_str(), nullptr, 10));
  if (operation == kEnd) {
    heartbeats_.ended(rank);
    return found("");
  }
  heartbeats_.heard(rank, connection, Clock::now());
  return found(text_of(heartbeats_.most_silent(Clock::now())));
}

std::string KeyServer::answer(char operation, const std::string& key, const std::string& value) {
  const auto at = values_.find(key);
  switch (operation) {
    case 's':
      values_[key] = value;
      return found("");
    case 'g':
      return at == values_.end() ? absent() : found(at->second);
    case 'a': {
      std::int64_t sum = at == values_.end() ? 0 : std::strtoll(at->second.c_str(), {}, 10);
      if (__builtin_add_overflow(sum, std::strtoll(value.c_str(), {}, 10), &sum)) return absent();
      values_[key] = std::to_string(sum);
      return found(values_[key]);
    }
    case 'd':
      return values_.erase(key) > 0 ? found("") : absent();
    case 'n':
      return found(std::to_string(values_.size()));
    default:
      return absent();
  }
}

}  // namespace penstock::dist
