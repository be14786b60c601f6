// The methods against the numbers of their sources.
#include "penstock/routers/methods.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/routers/router.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

using testing::node;
using testing::option;

/// The numbers that papers give: ReMoE section 4.1 and its scripts (topk, Lory's segments), GRIN's
/// code, Router Upcycling section 4.1, Switch Transformer (capacity, jitter), THOR's code, and
/// Shazeer et al.
TEST(Methods, HaveThePublishedNumbers) {
  struct Number {
    const char *method, *part, *key;
    double value;
  };
  const std::vector<Number> numbers = {{"topk", "load-balance", "coefficient", 0.01},
                                       {"sparsemixer-v2", "load-balance", "coefficient", 0.01},
                                       {"sparsemixer-v2", "sparsemixer-v2", "jitter", 0.01},
                                       {"switch", "load-balance", "coefficient", 0.01},
                                       {"switch", "topk-capacity", "capacity", 1.25},
                                       {"switch", "topk-capacity", "eval_capacity", 2},
                                       {"switch", "jitter-linear", "epsilon", 0.01},
                                       {"locmoe", "locality", "coefficient", 0},
                                       {"thor", "thor", "consistency", 5},
                                       {"noisy-topk", "importance", "coefficient", 0.1},
                                       {"noisy-topk", "load", "coefficient", 0.1}};
  for (const auto& [method, part, key, value] : numbers)
    EXPECT_EQ(option<double>(resolve({.method = method}), part, key), value) << method << part;
  EXPECT_EQ(option<std::int64_t>(resolve({.method = "lory"}), "lory", "segment_length"), 256);
  for (const std::string method :
       {"vanilla", "mlp", "locmoe", "router-upcycling", "router-upcycling-max"}) {
    const ResolvedRouter router = resolve({.method = method});
    EXPECT_EQ(option<double>(router, "load-balance", "coefficient"), 0.02) << method;
    EXPECT_EQ(option<double>(router, "z-loss", "coefficient"), 0.001) << method;
    EXPECT_EQ(option<std::string>(router, "topk", "softmax"), "before") << method;
    EXPECT_FALSE(option<bool>(router, "topk", "renormalise")) << method;
  }
  EXPECT_EQ(option<std::string>(resolve({.method = "mlp"}), "mlp", "activation"), "gelu");
  EXPECT_EQ(option<std::string>(resolve({.method = "router-upcycling"}), "mixture", "pool"), "sum");
  EXPECT_EQ(option<std::string>(resolve({.method = "router-upcycling-max"}), "mixture", "pool"),
            "max");
}

TEST(Methods, HyperRouterFollowsTheAuthorsGateOnThePapersSchedule) {
  for (const std::string method : {"hyperrouter", "smoe-dropout"}) {
    const ResolvedRouter router = resolve({.method = method});
    EXPECT_EQ(option<std::string>(router, "topk", "softmax"), "after");
    const RouterShape shape{.d_model = 4, .experts = 16, .k = 16};
    const auto k_at = [&](const ResolvedRouter& config, std::int64_t step) {
      return Router(config, shape, {})
          .selector()
          .nominal_k({.step = step, .total_steps = 400000, .training = true});
    };
    EXPECT_EQ(k_at(router, 0), 2);
    EXPECT_EQ(k_at(router, 200000), 9);
    EXPECT_EQ(k_at(router, 399999), 16);
    const ConfigNode scripts = node({{"schedule.start", std::int64_t{8}}});
    const ResolvedRouter code = resolve({.method = method, .parts = {{"topk", scripts}}});
    EXPECT_EQ(k_at(code, 25000), 8);  // k = 8.5 rounds to the even 8
    EXPECT_EQ(k_at(code, 25001), 9);
  }
  EXPECT_TRUE(option<bool>(resolve({.method = "smoe-dropout"}), "random", "bias"));
  EXPECT_TRUE(option<bool>(resolve({.method = "smoe"}), "linear", "bias"));
  EXPECT_FALSE(resolve({.method = "smoe-dropout"}).traits.trainable);
  EXPECT_EQ(resolve({.method = "thor"}).traits.forward_passes, 2);
}

TEST(Methods, EachBuildsARouter) {
  for (const auto& [name, method] : method_registry().entries()) {
    EXPECT_FALSE(method.summary.empty()) << name;
    EXPECT_FALSE(method.source.empty()) << name;
    const ResolvedRouter router = resolve({.method = name});
    const RouterShape shape{.d_model = 4, .experts = 4, .k = 2};
    if (!router.dense()) {
      EXPECT_NO_THROW(Router(router, shape, make_balancers(router, shape))) << name;
    }
  }
}

}  // namespace
}  // namespace penstock
