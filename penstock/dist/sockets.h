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

/// What a client says first; another program that connects is turned away.
inline constexpr char kGreeting[] = "penstock ranks 1\n";
inline constexpr std::size_t kGreetingBytes = sizeof kGreeting - 1;
/// A key or a value is never longer.
inline constexpr std::uint32_t kLongest = 1 << 20;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
/// The addresses of a host name or a number. Throws Error where there is none.
Addresses resolve_address(const std::string& address, int port);

/// Whether all of it was sent.
bool send_all(int descriptor, const std::string& bytes);
/// Whether so many bytes came.
bool receive_all(int descriptor, char* bytes, std::size_t count);

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
