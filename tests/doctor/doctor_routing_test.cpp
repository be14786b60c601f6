// The doctor's findings for models whose weights are sound, but whose routers or balance losses
// work badly.
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "penstock/convert/sample_windows.h"
#include "tests/base/error_of.h"
#include "tests/doctor/doctor_fixture.h"

namespace penstock {
namespace {

using testing::Doctor;

TEST_F(Doctor, MeasuresWhatTheRoutersDo) {
  make({.method = "vanilla", .k = 8, .renormalise = true});
  for (const LayerFigures& layer : look().layers) {
    EXPECT_NEAR(layer.gate_sum, 1, 1e-5);
    EXPECT_NEAR(layer.largest_share, 1.0 / 8, 1e-12);
    EXPECT_EQ(layer.active, 8);
    EXPECT_EQ(layer.idle, 0);
    EXPECT_GT(layer.entropy, 1.9);  // ln 8 is 2.08, and the logits are small
    EXPECT_LT(layer.entropy, std::log(8.0));
    EXPECT_LT(layer.fold_error, 1e-5);
  }
}

/// Upcycling and the doctor measure the same tokens. The inputs of the first layer's router are the
/// parent's; later layers' differ, for the gates do not sum to one.
TEST_F(Doctor, SeesTheGatesAndTheEntropyThatUpcyclingReports) {
  for (const char* const evaluation : {"threshold", "batch"}) {
    SCOPED_TRACE(evaluation);
    ConfigNode router;
    router.set("expert-threshold.evaluation", std::string(evaluation));
    const UpcycleReport report = make({.method = "expert-choice",
                                       .start = UpcycleStart::parent,
                                       .router_options = router,
                                       .calibration_tokens = DoctorOptions{}.tokens,
                                       .start_entropy = 1.5});
    ASSERT_EQ(report.gate_sums.size(), 2U);
    const Diagnosis diagnosis = look();
    ASSERT_EQ(diagnosis.layers.size(), 2U);
    EXPECT_NEAR(diagnosis.layers[0].gate_sum, report.gate_sums[0], 1e-3);
    EXPECT_NEAR(diagnosis.layers[0].entropy, 1.5, 1e-4);
  }
}

TEST_F(Doctor, RoutersThatSendEveryTokenToTheSameExperts) {
  make({.method = "vanilla"});
  give_all_tokens_one_embedding();
  const Diagnosis balanced = look();  // with balance losses
  for (const LayerFigures& layer : balanced.layers) EXPECT_NEAR(layer.load_experts, 2, 1e-9);
  const Check* check = find(balanced, "entropy and balance");
  ASSERT_TRUE(check);
  EXPECT_EQ(check->state, CheckState::warning);
  testing::expect_says(check->finding, {"2 of 2 MoE layers"});
  testing::expect_says(check->remedy, {"model.router.load-balance.coefficient"});
  // Checks of the same fact give the same verdict.
  EXPECT_EQ(find(balanced, "idle experts")->state, CheckState::warning);
  EXPECT_EQ(find(balanced, "dead experts")->state, CheckState::warning);
  testing::expect_says(find(balanced, "dead experts")->finding, {"12 of 16"});
  auto config = nlohmann::ordered_json::parse(real_file_system().read(path("moe/config.json")));
  auto& router = config["penstock"]["model"]["router"];
  router["balancers"] = nlohmann::ordered_json::array();
  for (const char* const balancer : {"load-balance", "z-loss"}) router.erase(balancer);
  write_file_atomically(real_file_system(), path("moe/config.json"), config.dump());
  const Diagnosis diagnosis = look();
  check = find(diagnosis, "entropy and balance");
  ASSERT_TRUE(check);
  EXPECT_EQ(check->state, CheckState::warning);
  testing::expect_says(check->finding, {"2 of 2 MoE layers"});
}

TEST_F(Doctor, ALossThatOutweighsTheCrossEntropy) {
  make({.method = "vanilla"});
  const Diagnosis sound = look();
  ASSERT_EQ(sound.objective.size(), 3U);
  EXPECT_EQ(sound.objective[0].name, "cross-entropy");
  EXPECT_EQ(sound.objective[1].name, "load-balance");
  EXPECT_EQ(sound.objective[2].name, "z-loss");
  damage([](TensorMap& tensors) {
    for (const char* layer : {"0", "1"})
      tensors[std::string("model.layers.") + layer + ".mlp.gate.weight"] *= 1000;
  });
  const Diagnosis diagnosis = look();
  EXPECT_EQ(diagnosis.worst(), CheckState::warning);
  for (const std::string name : {"first loss", "first gradient"}) {
    const Check* const check = find(diagnosis, name);
    ASSERT_TRUE(check) << name;
    EXPECT_EQ(check->state, CheckState::warning) << check->finding;
    testing::expect_says(check->finding, {"z-loss outweighs the cross-entropy"});
    testing::expect_says(check->remedy, {"model.router.z-loss.coefficient"});
  }
  // The logits grow a thousandfold, and so does logsumexp. The z-loss is the square of logsumexp.
  EXPECT_GT(diagnosis.objective[2].loss, 1e3 * sound.objective[2].loss);
}

/// The doctor's norms equal those of whole backward passes.
TEST_F(Doctor, TheNormsAreThoseOfTheGradients) {
  make({.method = "vanilla"});
  const Diagnosis diagnosis = look();
  const auto model = load_model(path("moe"));
  const at::Tensor window =
      sample_windows(path("text"), *open_model_source(path("moe")), {.tokens = 2048, .length = 32})
          .slice(0, 0, 1);
  at::Tensor balance;
  const at::Tensor hidden = model
                                ->forward({.tokens = window}, {.total_steps = 1, .training = true},
                                          [&](std::int64_t, const RoutingResult& result) {
                                            const at::Tensor& loss =
                                                result.loss_terms.at("load-balance");
                                            balance = balance.defined() ? balance + loss : loss;
                                          })
                                .hidden;
  const at::Tensor entropy = model->loss(hidden.slice(0, 0, 31), window[0].slice(0, 1));
  const auto norm = [&](const at::Tensor& root) {
    double squares = 0;
    for (const at::Tensor& gradient :
         torch::autograd::grad({root}, model->parameters(), {}, /*retain_graph=*/true, false,
                               /*allow_unused=*/true))
      if (gradient.defined()) squares += gradient.square().sum().item<double>();
    return std::sqrt(squares);
  };
  EXPECT_NEAR(diagnosis.objective[0].loss, entropy.item<double>(), 1e-5);
  EXPECT_NEAR(diagnosis.objective[0].gradient_norm, norm(entropy), 1e-4 * norm(entropy));
  EXPECT_NEAR(diagnosis.objective[1].loss, balance.item<double>(), 1e-6);
  EXPECT_NEAR(diagnosis.objective[1].gradient_norm, norm(balance), 1e-4 * norm(balance));
}

TEST_F(Doctor, MostExpertsIdle) {
  make({.method = "vanilla"});
  EXPECT_EQ(find(look(), "idle experts")->state, CheckState::ok);
  give_all_tokens_one_embedding();  // two experts of eight receive all tokens
  const Diagnosis diagnosis = look();
  for (const LayerFigures& layer : diagnosis.layers) EXPECT_EQ(layer.nearly_idle, 6);
  const Check* const check = find(diagnosis, "idle experts");
  EXPECT_EQ(check->state, CheckState::warning);
  testing::expect_says(check->finding,
                       {"most experts idle in 2 of 2 MoE layers: 12 of 16 experts"});
  testing::expect_says(check->remedy, {"model.router.load-balance.coefficient"});
}

TEST_F(Doctor, EveryExpertIsSeenToLearnThoughNoneIsChosen) {
  make({.method = "vanilla"});
  give_all_tokens_one_embedding();  // two experts of eight receive all tokens
  const Diagnosis diagnosis = look();
  testing::expect_says(find(diagnosis, "experts learn")->finding, {"16 of 16 experts"});
}

TEST_F(Doctor, AFrozenRouterNeedsNoGradient) {
  ConfigNode router;
  router.set("linear.frozen", true);
  make({.method = "vanilla", .router_options = router});
  const Diagnosis diagnosis = look();
  const Check* const check = find(diagnosis, "routers learn");
  ASSERT_TRUE(check);
  EXPECT_EQ(check->state, CheckState::ok);
  testing::expect_says(check->finding, {"nothing to train"});
}

TEST_F(Doctor, RoutersThatCannotLearnOrTellExpertsApart) {
  make({.method = "router-upcycling"});
  damage([](TensorMap& tensors) {
    at::Tensor keys = tensors["model.layers.1.mlp.router.scorer.keys"];
    keys[3].copy_(keys[5]);
  });
  expect_fault("tied experts", "1 pairs");
  make({.method = "router-upcycling"});
  damage([](TensorMap& tensors) {
    tensors["model.layers.1.mlp.router.scorer.keys"].zero_();
    tensors["model.layers.1.mlp.router.scorer.queries"].zero_();
  });
  expect_fault("routers learn", "1 routers");
}

}  // namespace
}  // namespace penstock
