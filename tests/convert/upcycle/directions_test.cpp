// The directions of upcycled routers' rows: folded heads, random directions, or means of inputs.
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "penstock/convert/sample_windows.h"
#include "penstock/io/config_json.h"
#include "tests/base/error_of.h"
#include "tests/convert/upcycle/upcycle_fixture.h"

namespace penstock {
namespace {

using testing::difference;
using testing::logits_of;

class Directions : public testing::UpcycleTest {
 protected:
  UpcycleOptions directed(const std::string& method, RouterDirections directions) const {
    UpcycleOptions out = options(method);
    out.directions = directions;
    out.calibration = path("text");
    return out;
  }
  static at::Tensor rows_of(LanguageModel& model, std::size_t layer) {
    return model.moe_layers()[layer]->router().scorer().fold().weight.to(at::kDouble);
  }
  std::string refusal(const UpcycleOptions& how) {
    return testing::error_or("", [&] { make(how, "refused"); });
  }
};

TEST_F(Directions, OfHeadsAreTheRowsThatRouterUpcyclingFoldsInto) {
  UpcycleOptions mixture = options("router-upcycling");
  mixture.collapsed = true;
  const auto folded = make(mixture, "folded");
  const auto plain = make(directed("vanilla", RouterDirections::heads), "plain");
  for (std::size_t layer = 0; layer < 2; ++layer)
    EXPECT_TRUE(rows_of(*plain, layer).equal(rows_of(*folded, layer)));
  EXPECT_EQ(plain->config().router.method, "vanilla");
  UpcycleOptions frozen = directed("vanilla", RouterDirections::heads);
  frozen.router_options.set("linear.frozen", true);
  EXPECT_TRUE(rows_of(*make(frozen, "frozen"), 1).equal(rows_of(*folded, 1)));
}

/// Each input has its highest logit at its nearest mean, and each row is the mean of its inputs.
TEST_F(Directions, OfMeansHoldTheirConditions) {
  const auto model = make(directed("vanilla", RouterDirections::kmeans));
  const auto dense = open_model_source(path("dense"));
  const auto inputs = testing::feed_forward_inputs(
      *dense, some_windows(sample_windows(path("text"), *dense, {}), 4096));
  ASSERT_EQ(report_.cluster_sizes.size(), 2U);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const at::Tensor rows = rows_of(*model, layer);
    EXPECT_LT((rows.norm(2, 1) - 0.02 * std::sqrt(32)).abs().max().item<double>(), 1e-6);
    at::Tensor x = inputs[layer].to(at::kDouble);
    const at::Tensor nearest = x.matmul(rows.t()).argmax(1);
    x = x / x.norm(2, 1, true);
    for (std::int64_t e = 0; e < 8; ++e) {
      const at::Tensor sum = x.index_select(0, nearest.eq(e).nonzero().flatten()).sum(0);
      EXPECT_LT(difference(sum / sum.norm(), rows[e] / rows[e].norm()), 1e-4);
      EXPECT_NEAR(report_.cluster_sizes[layer][e].item<double>(),
                  nearest.eq(e).sum().item<double>(), 2);  // rounding moves inputs at a border
    }
  }
  const auto json = read_json(path("out/upcycling.json"));
  EXPECT_EQ(json["directions"], "kmeans");
  EXPECT_EQ(json["cluster_sizes"][1].size(), 8U);
  const auto again = make(directed("vanilla", RouterDirections::kmeans), "again");
  EXPECT_TRUE(rows_of(*again, 1).equal(rows_of(*model, 1)));
  UpcycleOptions other = directed("vanilla", RouterDirections::kmeans);
  other.seed = 2;
  EXPECT_FALSE(rows_of(*make(other, "other"), 1).equal(rows_of(*model, 1)));
}

/// A parent start gives the parent's function and the same entropy for all directions.
TEST_F(Directions, StartAsTheParentAtOneEntropy) {
  const auto dense = logits_of(*load_model(path("dense")));
  for (const RouterDirections directions : {RouterDirections::heads, RouterDirections::kmeans}) {
    UpcycleOptions how = directed("vanilla", directions);
    how.start = UpcycleStart::parent;
    const std::string name(word(directions));
    EXPECT_LT(difference(logits_of(*make(how, name)), dense), 1e-5);
    EXPECT_EQ(report_.logit_scales.size(), 2U);
    EXPECT_NEAR(read_json(path(name + "/upcycling.json"))["start_entropy"].get<double>(),
                0.87 * std::log(8.0), 1e-9);
  }
}

TEST_F(Directions, RepeatOverVirtualGroups) {
  UpcycleOptions how = directed("vanilla", RouterDirections::kmeans);
  how.experts = 4;
  how.granularity = 2;
  const auto model = make(how);
  const at::Tensor rows = rows_of(*model, 0);
  EXPECT_EQ(rows.size(0), 8);
  EXPECT_TRUE(rows.slice(0, 0, 4).equal(rows.slice(0, 4, 8)));
  EXPECT_FALSE(rows[0].equal(rows[1]));
}

TEST_F(Directions, OfTheCollapsedFormMayBeRandom) {
  UpcycleOptions how = directed("router-upcycling", RouterDirections::random);
  how.collapsed = true;
  const auto model = make(how, "random");
  EXPECT_TRUE(report_.groups.empty());
  how.directions = RouterDirections::kmeans;
  EXPECT_FALSE(rows_of(*make(how, "kmeans"), 0).equal(rows_of(*model, 0)));
}

TEST_F(Directions, RefuseWhatHasNoRows) {
  testing::expect_says(refusal(directed("router-upcycling", RouterDirections::kmeans)),
                       {"options.collapsed"});
  testing::expect_says(refusal(directed("mlp", RouterDirections::kmeans)), {"'mlp'"});
  UpcycleOptions blind = directed("vanilla", RouterDirections::kmeans);
  blind.calibration.clear();
  testing::expect_says(refusal(blind), {"options.calibration"});
  UpcycleOptions many = directed("vanilla", RouterDirections::heads);
  many.experts = 4;
  many.routers = 8;
  testing::expect_says(refusal(many), {"must not be more"});
}

}  // namespace
}  // namespace penstock
