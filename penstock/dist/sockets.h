// TCP sockets for key_server.cpp and key_client.cpp: addresses, whole reads and writes, and the
// frames that both sides exchange.
#pragma once

#include <netdb.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

namespace penstock::dist {

/// A client's first bytes. A program that sends others is refused.
inline constexpr char kGreeting[] = "penstock ranks 1\n";
inline constexpr std::size_t kGreetingBytes = sizeof kGreeting - 1;
/// A rank is there; a rank ends; a rank is lost; and what the table says unasked where its process
/// ends it.
inline constexpr char kBeat = 'b', kEnd = 'e', kLost = 'l', kEnds = '!';
/// A reply's head: its kind, and the length of its body.
inline constexpr std::size_t kReplyHeader = 1 + sizeof(std::uint32_t);
/// A key or a value is never longer.
inline constexpr std::uint32_t kLongest = 1 << 20;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
/// The addresses of a host name or a number. Throws Error where there is none.
Addresses resolve_address(const std::string& address, int port);

/// Whether all of it was sent.
bool send_all(int descriptor, const std::string& bytes);
enum class Received { all, hung_up, nothing };
/// Has receive_all() look up after each second without a byte, and gives a connection that cannot
/// be sent to up after a few seconds.
void take_turns(int descriptor);
/// Waits for so many bytes.
/// @param turns  seconds in a row without a byte, while this process runs, after which it gives up
///   with `nothing`; 0: never. REQUIRES: take_turns() otherwise.
Received receive_all(int descriptor, char* bytes, std::size_t count, std::int64_t turns);

/// After so long without an answer from the other machine a watched connection is given up.
inline constexpr std::chrono::seconds kMachineLost{25};
/// The TCP connections that this process has.
std::set<int> connections();
/// Has the system end the connection where the other machine is lost: it answers neither data nor,
/// where none is under way, a question of the system's own, kMachineLost long.
void watch_machine(int descriptor);

/// Four bytes, as the machine has them: ranks have one build.
std::string length_bytes(std::size_t length);
std::uint32_t length_from(const char* bytes);

/// "cannot listen on ...: Address already in use".
std::string last_error();

}  // namespace penstock::dist
