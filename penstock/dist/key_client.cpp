// Implements KeyClient (key_server.h): one connection, one request at a time.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "penstock/base/error.h"
#include "penstock/base/parse_number.h"
#include "penstock/dist/key_server.h"
#include "penstock/dist/open_files.h"
#include "penstock/dist/sockets.h"

namespace penstock::dist {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPause = std::chrono::milliseconds(5);

/// A connection to the first of the addresses that answers; -1, with the reason in errno, if none
/// does.
int connect_to(const addrinfo* addresses, int family) {
  errno = EAFNOSUPPORT;
  for (const addrinfo* at = addresses; at; at = at->ai_next) {
    if (family != AF_UNSPEC && at->ai_family != family) continue;
    const int out = ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (out >= 0) take_turns(out);  // a machine that answers nothing is not waited for by minutes
    if (out >= 0 && ::connect(out, at->ai_addr, at->ai_addrlen) == 0) {
      if (!connected_to_itself(out)) return out;
      errno = ECONNREFUSED;
    }
    const int error = errno;
    if (out >= 0) ::close(out);
    errno = error;
  }
  return -1;
}

/// Whether an answer of a table can begin so.
bool is_reply(const char* header) {
  const char kind = header[0];
  return (kind == kFound || kind == kAbsent || kind == kEnds || kind == kFull) &&
         length_from(header + 1) <= kLongest;
}

}  // namespace

KeyClient::KeyClient(const std::string& address, int port, Milliseconds timeout,
                     KeyClientOptions options)
    : server_(concat(address, ":", port)), options_(std::move(options)) {
  const auto end = Clock::now() + timeout;
  const Addresses addresses = resolve_address(address, port, timeout, options_.connecting);
  while ((descriptor_ = connect_to(addresses.get(), options_.family)) < 0) {
    PENSTOCK_CHECK(!too_many_open_files(errno), "this rank cannot connect to rank 0 at ", server_,
                   ": ", open_files_text(errno));
    PENSTOCK_CHECK(Clock::now() < end, "rank 0 cannot be reached at ", server_, " (", last_error(),
                   "): is it started, and is the port open between the machines?");
    if (options_.connecting) options_.connecting();
    std::this_thread::sleep_for(10 * kPause);
  }
  const int yes = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (!send_all(descriptor_, kGreeting)) {
    ::close(descriptor_);
    fail("rank 0's table at ", server_, " hung up: does another program listen there?");
  }
}

KeyClient::~KeyClient() { ::close(descriptor_); }

std::string KeyClient::request(char operation, const std::string& key,
                               const std::string& value) const {
  const std::string full = options_.prefix + key;
  PENSTOCK_ASSERT(full.size() <= kLongest && value.size() <= kLongest);
  return operation + length_bytes(full.size()) + length_bytes(value.size()) + full + value;
}

std::optional<std::string> KeyClient::ask(char operation, const std::string& key,
                                          const std::string& value) {
  const std::scoped_lock lock(mutex_);
  char header[kReplyHeader];
  std::string out;
  send_all(descriptor_,
           request(operation, key,
                   value));  // where it fails, the last word of the table may still be read
  Received received = receive(header, sizeof header);
  if (received == Received::all) {
    if (!is_reply(header))
      throw LostTable(concat("no table of ranks answers at ", server_,
                             ", but another program; choose another MASTER_PORT"));
    out.resize(length_from(header + 1));
    received = receive(out.data(), out.size());
  }
  if (received == Received::nothing)
    throw SilentTable(concat("the table of ranks at ", server_, " has not answered for ",
                             options_.patience.count(), " s: is rank 0 stopped?"));
  if (received != Received::all)
    throw LostTable(concat("the table of ranks at ", server_,
                           " hung up: has rank 0 ended, or does another program listen there?"));
  PENSTOCK_CHECK(header[0] != kFull, "the table of ranks at ", server_,
                 " takes no more connections: ", out);
  if (header[0] == kEnds)
    throw TableEnded(concat("the table of ranks at ", server_, " is closed: rank 0 has ended"),
                     silent_from(out));
  return header[0] == kFound ? std::optional(out) : std::nullopt;
}

Received KeyClient::receive(char* bytes, std::size_t count) const {
  return receive_all(descriptor_, bytes, count, options_.patience.count());
}

void KeyClient::set(const std::string& key, const std::string& value) { ask('s', key, value); }

std::optional<std::string> KeyClient::get(const std::string& key) { return ask('g', key, ""); }

std::optional<std::string> KeyClient::wait(const std::string& key, Milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  while (true) {
    if (auto value = get(key)) return value;
    if (Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
}

std::int64_t KeyClient::add(const std::string& key, std::int64_t value) {
  return number('a', key, std::to_string(value));
}

bool KeyClient::remove(const std::string& key) { return ask('d', key, "").has_value(); }

std::int64_t KeyClient::size() { return number('n', "", ""); }

std::int64_t KeyClient::number(char operation, const std::string& key, const std::string& value) {
  const std::string answer = ask(operation, key, value).value_or("nothing");
  const auto out = parse_number<std::int64_t>(answer);
  PENSTOCK_CHECK(out, "the table of ranks at ", server_, " answers '", answer,
                 "' in place of a number");
  return *out;
}

SilentRank KeyClient::beat(int rank) {
  const auto answer = ask(kBeat, std::to_string(rank), "");
  const auto silent = silent_from(answer.value_or(""));
  PENSTOCK_CHECK(silent, "the table of ranks at ", server_, " answers '", answer.value_or(""),
                 "' in place of a rank");
  return *silent;
}

void KeyClient::end(int rank) { ask(kEnd, std::to_string(rank), ""); }

void KeyClient::lose(const SilentRank& lost) { ask(kLost, text_of(lost), ""); }

void KeyClient::leave_word(const SilentRank& lost) noexcept {
  const std::scoped_lock lock(mutex_);
  send_all(descriptor_, request(kLost, text_of(lost), ""));
}

KeyClient::Heard KeyClient::listen(Milliseconds timeout, int wake) {
  pollfd watched[] = {{wake, POLLIN, 0}, {descriptor_, POLLIN, 0}};
  ::poll(watched, 2, static_cast<int>(timeout.count()));
  if (watched[0].revents != 0) return Heard::woken;
  if (watched[1].revents == 0) return Heard::nothing;
  char operation = 0;
  const auto count = ::recv(descriptor_, &operation, 1, MSG_DONTWAIT | MSG_PEEK);
  return count == 1 && operation == kEnds ? Heard::ended : Heard::hung_up;
}

sockaddr_storage KeyClient::own_end() const {
  sockaddr_storage out{};
  socklen_t size = sizeof out;
  ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&out), &size);
  return out;
}

bool KeyClient::by_ipv4() const { return own_end().ss_family == AF_INET; }

std::string KeyClient::local_address() const {
  const sockaddr_storage mine = own_end();
  char text[INET6_ADDRSTRLEN] = "";
  const void* address =
      mine.ss_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&mine)->sin6_addr)
          : &reinterpret_cast<const sockaddr_in*>(&mine)->sin_addr;
  ::inet_ntop(mine.ss_family, address, text, sizeof text);
  return text;
}

}  // namespace penstock::dist
