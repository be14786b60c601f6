#include "penstock/base/loopback.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Loopback, IsKnownByNameAndAddress) {
  for (const char* host : {"localhost", "127.0.0.1", "127.0.1.1", "::1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"", "10.0.0.1", "128.0.0.1", "12.7.0.1", "::", "0.0.0.0", "fe80::1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace penstock
