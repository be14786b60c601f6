// The doctor is silent on healthy upcycles of every kind, and names every seeded fault.
#include "penstock/doctor/doctor.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/convert/upcycle/upcycle.h"
#include "penstock/models/files/open_model.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/tiny_parent.h"

namespace penstock {
namespace {

class Doctor : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_parent(path("dense"), testing::tiny_config(4));
    testing::write_text(path("text"));
  }
  std::string path(const std::string& name) const { return temp_.path().string() + "/" + name; }
  void make(UpcycleOptions how) const {
    real_file_system().remove_all(path("moe"));
    how.calibration = path("text");
    upcycle(*open_model_source(path("dense")), how, real_file_system(), path("moe"));
  }
  Diagnosis look() const {
    return examine(path("moe"), {.dense = path("dense"), .text = path("text")});
  }
  /// Rewrites the model's tensors after a change.
  void damage(const std::function<void(TensorMap&)>& change) const {
    TensorMap tensors = load_tensors(path("moe"));
    change(tensors);
    save_tensors(real_file_system(), path("moe/model.safetensors"), tensors);
  }
  static const Check* find(const Diagnosis& diagnosis, const std::string& name) {
    for (const Check& check : diagnosis.checks)
      if (check.name == name) return &check;
    return nullptr;
  }
  void expect_fault(const std::string& name, const std::string& word) const {
    const Diagnosis diagnosis = look();
    EXPECT_EQ(diagnosis.worst(), CheckState::fault);
    const Check* const check = find(diagnosis, name);
    ASSERT_TRUE(check) << name;
    EXPECT_EQ(check->state, CheckState::fault);
    EXPECT_NE(check->finding.find(word), std::string::npos) << check->finding;
    EXPECT_FALSE(check->remedy.empty());
  }
  void expect_healthy() const {
    const Diagnosis diagnosis = look();
    for (const Check& check : diagnosis.checks)
      EXPECT_EQ(check.state, CheckState::ok) << check.name << ": " << check.finding;
    EXPECT_EQ(diagnosis.layers.size(), 2U);
  }

  testing::TempDirectory temp_;
};

const std::string kExpert = "model.layers.1.mlp.experts.2.";

TEST_F(Doctor, IsSilentOnHealthyUpcycles) {
  std::vector<UpcycleOptions> healthy;
  for (const std::string method :
       {"vanilla", "switch", "locmoe", "mlp", "router-upcycling", "router-upcycling-max", "remoe",
        "smoe", "xmoe", "hash", "noisy-topk"})
    healthy.push_back({.method = method, .k = method == "switch" || method == "hash" ? 1.0 : 2.0});
  ConfigNode segments, lory;
  segments.set("segment_length", ConfigNode(std::int64_t{16}));
  lory.set("lory", segments);
  healthy.push_back({.method = "lory", .k = 1, .router_options = lory});
  for (const std::string method : {"vanilla", "router-upcycling"}) {
    healthy.push_back({.method = method, .k = 8, .renormalise = true});
    healthy.push_back({.method = method, .granularity = 2});
    healthy.push_back({.method = method, .granularity = 2, .scale = ShardScale::exact});
    healthy.push_back({.method = method, .noise = 0.01});
    healthy.push_back({.method = method, .untie = true});
    healthy.push_back({.method = method, .shared_width = 16});
    healthy.push_back({.method = method, .shared_copy = true});
    healthy.push_back({.method = method, .dtype = UpcycleDtype::bf16});
  }
  healthy.push_back({.method = "router-upcycling", .routers = 4});
  healthy.push_back({.method = "router-upcycling", .routers = 16});
  healthy.push_back({.method = "router-upcycling", .collapsed = true});
  healthy.push_back({.method = "router-upcycling", .query_bias = true});
  healthy.push_back({.method = "vanilla", .match_logits = true});
  for (std::size_t i = 0; i < healthy.size(); ++i) {
    SCOPED_TRACE(std::to_string(i) + ": " + healthy[i].method);
    make(healthy[i]);
    expect_healthy();
  }
}

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

TEST_F(Doctor, RoutersThatSendEveryTokenToTheSameExperts) {
  make({.method = "vanilla"});
  damage([](TensorMap& tensors) {
    at::Tensor table = tensors["model.embed_tokens.weight"];
    table.copy_(table[65].clone().expand_as(table));  // every token is the same one
  });
  const Diagnosis balanced = look();  // by its loss
  for (const LayerFigures& layer : balanced.layers) EXPECT_NEAR(layer.load_experts, 2, 1e-9);
  const Check* check = find(balanced, "entropy and balance");
  ASSERT_TRUE(check);
  EXPECT_EQ(check->state, CheckState::warning);
  EXPECT_NE(check->finding.find("2 of 2 MoE layers"), std::string::npos) << check->finding;
  EXPECT_NE(check->remedy.find("model.router.load-balance.coefficient"), std::string::npos);
  // The same fact, the same verdict.
  EXPECT_EQ(find(balanced, "idle experts")->state, CheckState::warning);
  EXPECT_EQ(find(balanced, "dead experts")->state, CheckState::warning);
  EXPECT_NE(find(balanced, "dead experts")->finding.find("12 of 16"), std::string::npos);
  auto config = nlohmann::ordered_json::parse(real_file_system().read(path("moe/config.json")));
  auto& router = config["penstock"]["model"]["router"];
  router["balancers"] = nlohmann::ordered_json::array();
  for (const char* const balancer : {"load-balance", "z-loss"}) router.erase(balancer);
  write_file_atomically(real_file_system(), path("moe/config.json"), config.dump());
  const Diagnosis diagnosis = look();
  check = find(diagnosis, "entropy and balance");
  ASSERT_TRUE(check);
  EXPECT_EQ(check->state, CheckState::warning);
  EXPECT_NE(check->finding.find("2 of 2 MoE layers"), std::string::npos) << check->finding;
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
    EXPECT_NE(check->finding.find("z-loss outweighs the cross-entropy"), std::string::npos)
        << check->finding;
    EXPECT_NE(check->remedy.find("model.router.z-loss.coefficient"), std::string::npos);
  }
  // As logits grow a thousandfold, so does logsumexp, whose square the loss is.
  EXPECT_GT(diagnosis.objective[2].loss, 1e3 * sound.objective[2].loss);
}

/// The norms beside those of whole backward passes.
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
  damage([](TensorMap& tensors) {
    at::Tensor table = tensors["model.embed_tokens.weight"];
    table.copy_(table[65].clone().expand_as(table));  // two experts of eight get all tokens
  });
  const Diagnosis diagnosis = look();
  for (const LayerFigures& layer : diagnosis.layers) EXPECT_EQ(layer.nearly_idle, 6);
  const Check* const check = find(diagnosis, "idle experts");
  EXPECT_EQ(check->state, CheckState::warning);
  EXPECT_NE(check->finding.find("most experts idle in 2 of 2 MoE layers: 12 of 16 experts"),
            std::string::npos)
      << check->finding;
  EXPECT_NE(check->remedy.find("model.router.load-balance.coefficient"), std::string::npos);
}

TEST_F(Doctor, ADroppedExpert) {
  make({.method = "vanilla"});
  damage([](TensorMap& tensors) { tensors.erase(kExpert + "down_proj.weight"); });
  expect_fault("files", kExpert + "down_proj.weight");
  make({.method = "vanilla"});
  damage([](TensorMap& tensors) { tensors[kExpert + "down_proj.weight"].zero_(); });
  expect_fault("experts present", kExpert + "down_proj.weight");
}

TEST_F(Doctor, GateAndUpSwapped) {
  make({.method = "vanilla"});
  damage([](TensorMap& tensors) {
    std::swap(tensors[kExpert + "gate_proj.weight"], tensors[kExpert + "up_proj.weight"]);
  });
  expect_fault("experts", "swapped");
  make({.method = "vanilla", .granularity = 2});
  damage([](TensorMap& tensors) {
    std::swap(tensors[kExpert + "gate_proj.weight"], tensors[kExpert + "up_proj.weight"]);
  });
  expect_fault("experts", "swapped");
}

TEST_F(Doctor, GateAndUpSwappedInASharedCopy) {
  make({.method = "vanilla", .shared_copy = true});
  const std::string stem = "model.layers.1.mlp.shared_expert.";
  damage([&](TensorMap& tensors) {
    std::swap(tensors[stem + "gate_proj.weight"], tensors[stem + "up_proj.weight"]);
  });
  expect_fault("experts", stem + "gate_proj.weight");
}

/// A shared expert that gives 0 leaves the sum of the experts what the parent computes.
TEST_F(Doctor, ExactWeightsBesideASharedExpertThatGivesNothing) {
  make({.method = "vanilla", .shared_width = 16});
  const auto relation = [this] {
    Diagnosis ignored;
    return doctor::check_experts(*open_model_source(path("moe")),
                                 open_model_source(path("dense")).get(), false, ignored);
  };
  const doctor::ExpertRelation silent = relation();
  EXPECT_TRUE(silent.silent_shared);
  const auto dense = load_model(path("dense")), moe = load_model(path("moe"));
  const at::Tensor windows = torch::arange(20, at::kLong).view({1, 20});
  doctor::DenseView view = doctor::view_dense(*dense, windows);
  view.logits = view.logits * 1.01;
  Diagnosis diagnosis;
  doctor::check_logits(*moe, view, silent, windows, diagnosis);
  EXPECT_EQ(diagnosis.worst(), CheckState::fault);
  damage([](TensorMap& tensors) {
    tensors["model.layers.0.mlp.shared_expert.down_proj.weight"].fill_(0.5);
  });
  EXPECT_FALSE(relation().silent_shared);
}

TEST_F(Doctor, EveryExpertIsSeenToLearnThoughNoneIsChosen) {
  make({.method = "vanilla"});
  damage([](TensorMap& tensors) {
    at::Tensor table = tensors["model.embed_tokens.weight"];
    table.copy_(table[65].clone().expand_as(table));  // two experts of eight get all tokens
  });
  const Diagnosis diagnosis = look();
  EXPECT_NE(find(diagnosis, "experts learn")->finding.find("16 of 16 experts"), std::string::npos)
      << find(diagnosis, "experts learn")->finding;
}

TEST_F(Doctor, AnUnscaledVirtualGroup) {
  for (const ShardScale scale : {ShardScale::published, ShardScale::exact}) {
    make({.method = "vanilla", .granularity = 2, .scale = scale});
    const double a = scale == ShardScale::published ? std::cbrt(8.0) : std::sqrt(8.0);
    damage([&](TensorMap& tensors) {  // experts 8 to 15 are the second group
      for (int e = 8; e < 16; ++e)
        for (const std::string part : {"gate", "up", "down"})
          if (part != "gate" || scale == ShardScale::published)
            tensors["model.layers.0.mlp.experts." + std::to_string(e) + "." + part +
                    "_proj.weight"] /= a;
    });
    expect_fault("virtual groups", "experts.");
  }
  // Asked for, it is a warning.
  make({.method = "vanilla", .granularity = 2, .scale = ShardScale::none});
  EXPECT_EQ(look().worst(), CheckState::warning);
}

TEST_F(Doctor, WeightsThatAreNotFinite) {
  make({.method = "router-upcycling"});
  damage([](TensorMap& tensors) {
    tensors["model.layers.0.mlp.router.scorer.keys"][1][0] =
        std::numeric_limits<float>::quiet_NaN();
  });
  expect_fault("finite weights", "model.layers.0.mlp.router.scorer.keys");
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

TEST_F(Doctor, OtherWeightsThanTheParents) {
  make({.method = "vanilla"});
  damage([](TensorMap& tensors) { tensors["model.layers.0.self_attn.o_proj.weight"] *= 1.5; });
  const Diagnosis trained = look();  // as after training: no fault, but said
  EXPECT_EQ(trained.worst(), CheckState::ok);
  EXPECT_NE(find(trained, "other weights")->finding.find("1 tensors"), std::string::npos);
  ModelConfig other = testing::tiny_config(4);
  other.rope_adjacent = true;
  testing::write_parent(path("other"), other);
  const Diagnosis strange = examine(path("moe"), {.dense = path("other"), .text = path("text")});
  EXPECT_EQ(find(strange, "parent")->state, CheckState::fault);
  ModelConfig narrow = testing::tiny_config(4);
  narrow.vocab = 100;
  testing::write_parent(path("narrow"), narrow.resolved());
  const Diagnosis small = examine(path("moe"), {.dense = path("narrow"), .text = path("text")});
  EXPECT_EQ(find(small, "parent")->state, CheckState::fault);
  EXPECT_FALSE(find(small, "dense logits"));
}

/// Experts exact, the rest exact, and still another function: what a wrong reader would do.
TEST_F(Doctor, ExactWeightsThatComputeSomethingElse) {
  make({.method = "vanilla"});
  ModelConfig config = open_model_source(path("moe"))->config();
  Diagnosis diagnosis;
  const auto dense = load_model(path("dense")), moe = load_model(path("moe"));
  const at::Tensor windows = torch::arange(20, at::kLong).view({1, 20});
  doctor::DenseView view = doctor::view_dense(*dense, windows);
  const doctor::ExpertRelation exact{.copies = true, .parent = true};
  doctor::check_logits(*moe, view, exact, windows, diagnosis);
  EXPECT_EQ(find(diagnosis, "dense logits")->state, CheckState::ok);
  Diagnosis wrong;
  view.logits = view.logits * 1.01;
  doctor::check_logits(*moe, view, exact, windows, wrong);
  EXPECT_EQ(find(wrong, "dense logits")->state, CheckState::fault);
}

TEST_F(Doctor, AStartFarFromTheParentIsAWarning) {
  make({.method = "switch", .k = 1});
  const auto dense = load_model(path("dense")), moe = load_model(path("moe"));
  const at::Tensor windows = torch::arange(20, at::kLong).view({1, 20});
  doctor::DenseView view = doctor::view_dense(*dense, windows);
  const auto judged = [&](double parent_loss) {
    Diagnosis diagnosis;
    doctor::check_routing(*moe, windows, diagnosis);
    view.loss = parent_loss;
    doctor::check_logits(*moe, view, {}, windows, diagnosis);
    return *find(diagnosis, "as configured");
  };
  const double own = doctor::view_dense(*moe, windows).loss;
  EXPECT_EQ(judged(own - 0.09).state, CheckState::ok);
  const Check far = judged(own - 0.11);
  EXPECT_EQ(far.state, CheckState::warning);
  EXPECT_NE(far.finding.find("a token's gates sum to 0."), std::string::npos) << far.finding;
  EXPECT_NE(far.remedy.find("--start parent"), std::string::npos) << far.remedy;
}

TEST_F(Doctor, WithoutParentOrText) {
  make({.method = "vanilla"});
  const Diagnosis diagnosis = examine(path("moe"), {});
  EXPECT_EQ(diagnosis.worst(), CheckState::ok);
  EXPECT_FALSE(find(diagnosis, "dense logits"));
  const Diagnosis dense = examine(path("dense"), {});
  EXPECT_EQ(dense.worst(), CheckState::ok);
  EXPECT_TRUE(dense.layers.empty());
}

}  // namespace
}  // namespace penstock
