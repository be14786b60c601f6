// The choice of an operator's implementation: order, declining, counting, and the reference-only
// switch.
#include "penstock/ops/implementation.h"

#include <gtest/gtest.h>

#include "penstock/ops/dispatch.h"

namespace penstock::ops::implementation_test {
namespace {

using Counts = std::map<std::string, std::int64_t>;

std::string declines_odd(std::int64_t n) { return n % 2 ? "odd" : ""; }
std::string declines_large(std::int64_t n) { return n > 10 ? "large" : ""; }

const Implementations<std::string(std::int64_t)>& list() {
  static const Implementations<std::string(std::int64_t)> entries(
      "seam_test", {{"even", declines_odd, [](std::int64_t) -> std::string { return "even"; }},
                    {"small", declines_large, [](std::int64_t) -> std::string { return "small"; }},
                    {"reference", nullptr, [](std::int64_t) -> std::string { return "all"; }}});
  return entries;
}

TEST(Implementations, FirstThatDoesNotDeclineRunsAndIsCounted) {
  reset_dispatch_counts();
  EXPECT_EQ(list().run(4), "even");
  EXPECT_EQ(list().run(12), "even");
  EXPECT_EQ(list().run(3), "small");
  EXPECT_EQ(list().run(13), "all");
  EXPECT_EQ(dispatch_counts(),
            (Counts{{"seam_test/even", 2}, {"seam_test/small", 1}, {"seam_test/reference", 1}}));
}

TEST(Implementations, ReferenceOnlyNests) {
  {
    const ReferenceOnly outer;
    { const ReferenceOnly inner; }
    EXPECT_EQ(list().run(4), "all");
  }
  EXPECT_EQ(list().run(4), "even");
}

TEST(Implementations, ListWithoutReferenceIsABug) {
  using List = Implementations<std::string(std::int64_t)>;
  const List::Entry partial{"even", declines_odd, [](std::int64_t) { return std::string(); }};
  EXPECT_THROW(List("seam_test", {partial}), AssertionError);
}

}  // namespace
}  // namespace penstock::ops::implementation_test
