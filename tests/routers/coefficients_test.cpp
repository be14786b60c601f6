// The options that are weights of losses, and the advice for a loss that is too large.
#include "penstock/routers/coefficients.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/error_of.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

using testing::node;
using testing::option;
using Names = std::vector<std::string>;

TEST(Coefficients, AreThoseThatThePartsMark) {
  EXPECT_EQ(coefficient_keys({.method = "vanilla"}),
            (Names{"model.router.load-balance.coefficient", "model.router.z-loss.coefficient"}));
  EXPECT_EQ(coefficient_keys({.method = "thor"}), Names{"model.router.thor.consistency"});
  EXPECT_EQ(coefficient_keys({.method = "hyperrouter"}).front(), "model.router.hypernetwork.l2");
  EXPECT_TRUE(coefficient_keys({.method = "dense"}).empty());
  EXPECT_TRUE(coefficients("no such part").empty());
  // A coefficient of 0 leaves the loss out, so 0 must be allowed.
  for (const auto& [name, entry] : balancer_registry().entries())
    for (const std::string& key : coefficients(name))
      EXPECT_NO_THROW(entry.complete(node({{key, 0.0}}))) << name << "." << key;
}

TEST(Coefficients, AreLaidOverARouterAndNothingElseIs) {
  const RouterConfig own{.method = "vanilla"};
  RouterConfig asked{
      .method = "vanilla", .k = 3, .parts = {{"z-loss", node({{"coefficient", 0.5}})}}};
  const RouterConfig joined = with_coefficients(own, asked);
  EXPECT_EQ(joined.k, own.k);
  EXPECT_EQ(option<double>(resolve(joined), "z-loss", "coefficient"), 0.5);
  EXPECT_EQ(option<double>(resolve(joined), "load-balance", "coefficient"), 0.02);
}

TEST(Coefficients, TheRemedyNamesTheKey) {
  testing::expect_says(remedy_for_loss("z-loss"), {"model.router.z-loss.coefficient = 0"});
  EXPECT_TRUE(remedy_for_loss("z-loss").ends_with(", or start from smaller logits"));
  EXPECT_EQ(remedy_for_loss("adaptive-l1"), "look at its options (`penstock routers adaptive-l1`)");
}

}  // namespace
}  // namespace penstock
