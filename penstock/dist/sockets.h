// TCP sockets for key_server.cpp and key_client.cpp: addresses, whole reads and writes, and the
// frames that both sides exchange.
#pragma once

#include <netdb.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

namespace penstock::dist {

/// The first bytes that a client sends. A client that sends other bytes is refused.
inline constexpr char kGreeting[] = "penstock ranks 1\n";
inline constexpr std::size_t kGreetingBytes = sizeof kGreeting - 1;
/// Messages of ranks: a rank is alive; a rank ends; a rank is lost. Messages of the table: its
/// process ends; it has no room for a connection.
inline constexpr char kBeat = 'b', kEnd = 'e', kLost = 'l', kEnds = '!', kFull = '#';
/// The table's answers: a value; none.
inline constexpr char kFound = '+', kAbsent = '-';
/// A reply's head: its kind, and the length of its body.
inline constexpr std::size_t kReplyHeader = 1 + sizeof(std::uint32_t);
/// The largest length of a key or a value.
inline constexpr std::uint32_t kLongest = 1 << 20;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
/// Why a host name or a numeric address has no addresses; "" if it has some.
std::string why_unknown(const std::string& address);
/// The addresses of a host name or of a numeric address. Retries until `timeout`, because some
/// networks know the name of a machine only after it has started; then throws Error.
/// @param waiting  called repeatedly until the name is known; may be null
Addresses resolve_address(const std::string& address, int port,
                          std::chrono::milliseconds timeout = {},
                          const std::function<void()>& waiting = nullptr);

/// Whether a socket was connected to its own port. The system may choose a free port that nobody
/// listens on for the client that asks for it.
bool connected_to_itself(int descriptor);
/// Sends all bytes. Returns whether all were sent.
bool send_all(int descriptor, const std::string& bytes);
enum class Received { all, hung_up, nothing };
/// Makes receive_all() wake up after each second without a byte, and send_all() fail if the other
/// side accepts no bytes for a few seconds.
void take_turns(int descriptor);
/// Waits for `count` bytes.
/// @param turns  successive seconds without a byte, while this process runs, after which it returns
///   `nothing`; 0: never. REQUIRES: take_turns() was called, unless 0.
Received receive_all(int descriptor, char* bytes, std::size_t count, std::int64_t turns);

/// The time without an answer from the other machine after which watch_machine() ends a connection.
inline constexpr std::chrono::seconds kMachineLost{25};
/// The descriptors of this process's TCP connections.
std::set<int> connections();
/// Makes the operating system end the connection if the other machine is lost, that is, if it has
/// acknowledged neither data nor (on an idle connection) keep-alive probes for kMachineLost.
void watch_machine(int descriptor);

/// The length as four bytes in the machine's byte order, since all ranks run the same build.
std::string length_bytes(std::size_t length);
std::uint32_t length_from(const char* bytes);

/// The system's text of the last error: "Address already in use".
std::string last_error();

}  // namespace penstock::dist
