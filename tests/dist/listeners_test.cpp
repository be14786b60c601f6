// Listening sockets on the addresses of a name: which they are, and which are refused.
#include "penstock/dist/listeners.h"

#include <gtest/gtest.h>
#include <netdb.h>

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/dist/key_server.h"
#include "penstock/dist/sockets.h"
#include "tests/base/error_of.h"
#include "tests/dist/loopback_sockets.h"

namespace penstock::dist {
namespace {

/// What getaddrinfo() returns for a name with these addresses.
class AddressesOfName {
 public:
  AddressesOfName(std::initializer_list<const char*> numbers) {
    for (const char* number : numbers) {
      found_.push_back(resolve_address(number, 0));
      list_.push_back(*found_.back());
    }
    for (std::size_t i = 0; i < list_.size(); ++i)
      list_[i].ai_next = i + 1 < list_.size() ? &list_[i + 1] : nullptr;
  }
  const addrinfo* first() const { return list_.data(); }

 private:
  std::vector<Addresses> found_;  // they own the socket addresses
  std::vector<addrinfo> list_;
};

bool listens(const char* address, int port) {
  try {
    KeyClient(address, port, std::chrono::milliseconds(0));
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Listeners, ListenOnEachAddressAndNoOther) {
  const Listeners both(AddressesOfName{"127.0.0.1", "127.0.0.2"}.first(), 0);
  EXPECT_EQ(both.descriptors().size(), 2u);
  EXPECT_TRUE(listens("127.0.0.1", both.port()));
  EXPECT_TRUE(listens("127.0.0.2", both.port()));
  EXPECT_FALSE(listens("127.0.0.3", both.port()));
}

TEST(Listeners, ListenOnTheAddressesOfBothProtocols) {
  const AddressesOfName name{"::1", "127.0.0.1"};
  if (!testing::is_of_this_machine(*name.first())) GTEST_SKIP() << "no IPv6";
  const Listeners both(name.first(), 0);
  EXPECT_EQ(both.descriptors().size(), 2u);
  EXPECT_TRUE(listens("::1", both.port()));
  EXPECT_TRUE(listens("127.0.0.1", both.port()));
}

TEST(Listeners, ListenOnceOnAnAddressThatANameHasTwice) {
  const AddressesOfName name{"127.0.0.1", "127.0.0.1"};
  const Listeners one(name.first(), 0);
  EXPECT_EQ(one.descriptors().size(), 1u);
}

/// No machine has 192.0.2.1.
TEST(Listeners, LeaveOutTheAddressesOfOtherMachines) {
  const Listeners one(AddressesOfName{"192.0.2.1", "127.0.0.1"}.first(), 0);
  EXPECT_EQ(one.descriptors().size(), 1u);
  EXPECT_TRUE(listens("127.0.0.1", one.port()));
  EXPECT_NE(testing::error_of([] { Listeners(AddressesOfName{"192.0.2.1"}.first(), 0); }), "");
}

/// Clients that try the taken address first would come to the other job's table.
TEST(Listeners, RefuseAPortThatIsTakenOnOneAddress) {
  std::optional<Listeners> other(std::in_place, AddressesOfName{"127.0.0.2"}.first(), 0);
  const int port = other->port();
  const AddressesOfName name{"127.0.0.1", "127.0.0.2"};
  testing::expect_error([&] { Listeners(name.first(), port); }, {"in use"});
  other.reset();
  EXPECT_EQ(Listeners(name.first(), port).descriptors().size(), 2u);
}

TEST(Listeners, RefuseAllNetworkCards) {
  for (const char* all : {"0.0.0.0", "::"})
    testing::expect_error([&] { Listeners(AddressesOfName{all}.first(), 0); },
                          {"all network cards"});
}

}  // namespace
}  // namespace penstock::dist
