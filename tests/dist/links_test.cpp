// The connections that a rank cuts when another rank is lost.
#include "penstock/dist/links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/dist/loopback_sockets.h"

namespace penstock::dist {
namespace {

using Ends = testing::LoopbackConnection;

TEST(Links, AreCutAndNothingElse) {
  const Ends before;
  std::optional<Ends> links;
  Links watched;
  watched.watch([&] { links.emplace(); });
  const Ends after;
  EXPECT_TRUE(links->passes());
  watched.cut();
  EXPECT_FALSE(links->passes());
  EXPECT_TRUE(before.passes());
  EXPECT_TRUE(after.passes());
}

TEST(Links, TellWhoeverWaitsThatTheyAreCut) {
  Links links;
  int told = 0;
  auto waits = links.on_cut([&] { ++told; });
  links.cut();
  links.cut();
  EXPECT_EQ(told, 2);
  waits.reset();
  links.cut();
  EXPECT_EQ(told, 2);
}

TEST(Links, HaveEndedWhenWhoeverWaitsIsTold) {
  Links watched;
  std::optional<Ends> links;
  watched.watch([&] { links.emplace(); });
  bool passed = true;
  const auto waits = watched.on_cut([&] { passed = links->passes(); });
  watched.cut();
  EXPECT_FALSE(passed);
}

TEST(Links, AreForgottenOnceTheyAreClosed) {
  Links watched;
  std::optional<Ends> links;
  watched.watch([&] { links.emplace(); });
  const std::pair numbers{links->one, links->other};
  links.reset();
  const Ends others;  // the system usually assigns the same descriptors again
  EXPECT_EQ(std::minmax(others.one, others.other), std::minmax(numbers.first, numbers.second));
  watched.cut();
  EXPECT_TRUE(others.passes());
}

TEST(Links, AreCutWhileTheyAreMade) {
  Links watched;
  watched.watch([&] {
    const Ends half;
    EXPECT_TRUE(half.passes());
    watched.cut();
    EXPECT_FALSE(half.passes());
  });
}

}  // namespace
}  // namespace penstock::dist
