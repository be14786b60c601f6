// The routers of upcycled models: their weights, the scale of their logits, and their options.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "penstock/convert/export/export_model.h"
#include "penstock/convert/export/not_portable.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/convert/upcycle/calibration.h"
#include "penstock/io/config_json.h"
#include "penstock/layers/moe.h"
#include "penstock/models/fold_routers.h"
#include "tests/convert/upcycle/upcycle_fixture.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

using testing::difference;
using testing::logits_of;

using Upcycle = testing::UpcycleTest;

/// By default a generated router gets no bias, because other programs' formats have no router bias.
TEST_F(Upcycle, AGeneratedRouterHasNoBiasUnlessAskedFor) {
  const auto bias_of = [&](const std::string& name) {
    return testing::option<bool>(resolve(open_model_source(path(name))->config().router),
                                 "hypernetwork", "bias");
  };
  make(options("hyperrouter"), "plain");
  EXPECT_FALSE(bias_of("plain"));
  EXPECT_EQ(export_model({.model = path("plain"), .out = path("hf"), .check_tokens = 16}).verdict,
            ExportVerdict::exact);
  UpcycleOptions asked = options("hyperrouter");
  ConfigNode bias, parts;
  bias.set("bias", true);
  parts.set("hypernetwork", bias);
  asked.router_options = parts;
  make(asked, "biased");
  EXPECT_TRUE(bias_of("biased"));
  EXPECT_THROW(export_model({.model = path("biased"), .out = path("no"), .check_tokens = 0}),
               NotPortableError);
  // The method "smoe" includes a bias.
  make(options("smoe"), "named");
  const ResolvedRouter smoe = resolve(open_model_source(path("named"))->config().router);
  EXPECT_TRUE(testing::option<bool>(smoe, "linear", "bias"));
}

TEST_F(Upcycle, RouterUpcyclingTakesItsRoutersFromTheHeads) {
  UpcycleOptions how = options("router-upcycling");
  how.routers = 4;
  how.query_bias = true;
  make(how);
  const auto dense = open_model_source(path("dense")), moe = open_model_source(path("out"));
  const auto keys = mean_keys(*dense, sample_windows(path("text"), *dense, {}), {});
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const std::string stem = "model.layers." + std::to_string(layer) + ".";
    const HeadGroups& groups = report_.groups.at(layer);
    ASSERT_EQ(groups.queries.size(), 4U);
    ASSERT_EQ(groups.keys.size(), 8U);
    const at::Tensor queries = moe->tensor(stem + "mlp.router.scorer.queries"),
                     made = moe->tensor(stem + "mlp.router.scorer.keys"),
                     weight = dense->tensor(stem + "self_attn.q_proj.weight"),
                     bias = dense->tensor(stem + "self_attn.q_proj.bias");
    ASSERT_EQ(queries.sizes(), (std::vector<std::int64_t>{4, 8, 32}));
    for (std::int64_t j = 0; j < 4; ++j)
      for (std::int64_t part = 0; part < 2; ++part) {
        const std::int64_t head =
            groups.queries[static_cast<std::size_t>(j)][static_cast<std::size_t>(part)];
        EXPECT_TRUE(queries[j].narrow(0, part * 4, 4).equal(weight.narrow(0, head * 4, 4)));
        EXPECT_TRUE(moe->tensor(stem + "mlp.router.scorer.query_bias")[j]
                        .narrow(0, part * 4, 4)
                        .equal(bias.narrow(0, head * 4, 4)));
      }
    for (std::int64_t i = 0; i < 8; ++i)
      for (std::int64_t part = 0; part < 2; ++part) {
        const std::int64_t head =
            groups.keys[static_cast<std::size_t>(i)][static_cast<std::size_t>(part)];
        EXPECT_LT(difference(made[i].narrow(0, part * 4, 4), keys[layer][head]), 1e-7);
      }
  }
  const auto json = read_json(path("out/upcycling.json"));
  EXPECT_EQ(json["layers"][1]["routers"].get<std::vector<HeadGroup>>(), report_.groups[1].queries);
  EXPECT_EQ(json["layers"][0]["similarity"].size(), 8U);
}

/// m > n: as many keys as routers, so several per expert. More routers than heads: heads are
/// halved.
TEST_F(Upcycle, MoreRoutersThanExperts) {
  UpcycleOptions how = options("router-upcycling");
  how.experts = 4;
  how.routers = 16;
  const auto model = make(how);
  const auto moe = open_model_source(path("out"));
  const std::string stem = "model.layers.0.mlp.router.scorer.";
  EXPECT_EQ(moe->shape(stem + "queries"), (std::vector<std::int64_t>{16, 2, 32}));
  EXPECT_EQ(moe->shape(stem + "keys"), (std::vector<std::int64_t>{16, 2}));
  EXPECT_EQ(report_.groups[0].parts, 2);
  EXPECT_TRUE(logits_of(*model).isfinite().all().item<bool>());
  EXPECT_FALSE(resolve(moe->config().router).traits.foldable);
}

TEST_F(Upcycle, TheCollapsedRouterStartsAsTheSameFunction) {
  UpcycleOptions how = options("router-upcycling");
  const auto factored = make(how, "factored");
  how.collapsed = true;
  const auto collapsed = make(how, "collapsed");
  EXPECT_LT(difference(logits_of(*factored), logits_of(*collapsed)), 1e-4);
  EXPECT_LT(difference(logits_of(*fold_routers(*factored)), logits_of(*factored)), 1e-4);
  EXPECT_EQ(open_model_source(path("collapsed"))->shape("model.layers.0.mlp.gate.weight"),
            (std::vector<std::int64_t>{8, 32}));
}

/// The random control's logits have the standard deviation of Router Upcycling's with a parent
/// start.
void expect_scale_of_scaled_heads(const ModelSource& random, const ModelSource& heads,
                                  const std::vector<at::Tensor>& inputs) {
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const std::string stem = "model.layers." + std::to_string(layer) + ".mlp.";
    const at::Tensor queries = heads.tensor(stem + "router.scorer.queries").sum(0),
                     keys = heads.tensor(stem + "router.scorer.keys");
    const at::Tensor scores = inputs[layer].matmul(queries.t()).matmul(keys.t()) / 2;  // √4
    const at::Tensor plain = inputs[layer].matmul(random.tensor(stem + "gate.weight").t());
    EXPECT_NEAR(plain.std().item<double>(), scores.std().item<double>(),
                1e-3 * scores.std().item<double>());
  }
}

TEST_F(Upcycle, TheRandomControlHasRouterUpcyclingsLogitScale) {
  make(options("router-upcycling"), "heads");
  const auto heads = open_model_source(path("heads"));
  const auto dense = open_model_source(path("dense"));
  const auto inputs =
      testing::feed_forward_inputs(*dense, sample_windows(path("text"), *dense, {}));
  UpcycleOptions scaled = options("router-upcycling");
  scaled.start = UpcycleStart::parent;
  make(scaled, "scaled-heads");
  for (const std::int64_t granularity : {1, 2}) {
    UpcycleOptions how = options("vanilla");
    how.calibration = path("text");
    how.granularity = granularity;
    how.match_logits = true;
    how.match_lr = true;
    const std::string out = "matched" + std::to_string(granularity);
    make(how, out);
    const auto matched = open_model_source(path(out));
    EXPECT_GT(report_.lr_scale, 0);
    EXPECT_EQ(matched->config().router.lr_scale, report_.lr_scale);
    // With a parent start, the control matches the scaled logits of Router Upcycling.
    how.start = UpcycleStart::parent;
    make(how, out + "-parent");
    how.start = UpcycleStart::published;
    if (granularity == 1)
      expect_scale_of_scaled_heads(*open_model_source(path(out + "-parent")),
                                   *open_model_source(path("scaled-heads")), inputs);
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const std::string stem = "model.layers." + std::to_string(layer) + ".mlp.";
      const at::Tensor plain = inputs[layer].matmul(matched->tensor(stem + "gate.weight").t());
      const at::Tensor queries = heads->tensor(stem + "router.scorer.queries").sum(0),
                       keys = heads->tensor(stem + "router.scorer.keys");
      const at::Tensor scores = inputs[layer].matmul(queries.t()).matmul(keys.t()) / 2;  // √4
      EXPECT_NEAR(plain.std().item<double>(), scores.std().item<double>(),
                  1e-4 * scores.std().item<double>());
    }
  }
}

/// ReLU selection on attention-head routers: the model loads, runs, and keeps λ.
TEST_F(Upcycle, ReMoeOnTopOfAttentionHeads) {
  UpcycleOptions how = options("remoe");
  how.scorer = "router-upcycling";
  how.calibration = path("text");
  const auto model = make(how);
  EXPECT_EQ(resolve(model->config().router).scorer, "mixture");
  EXPECT_EQ(resolve(model->config().router).selector, "relu");
  EXPECT_TRUE(logits_of(*model).isfinite().all().item<bool>());
  ASSERT_EQ(model->balancers().size(), 1U);
  EXPECT_EQ(model->balancers()[0]->state().at("lambda"), 1e-8f);
}

}  // namespace
}  // namespace penstock
