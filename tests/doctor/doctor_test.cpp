// The doctor reports nothing on healthy upcycles of every kind, and names every seeded fault of
// weights.
#include "penstock/doctor/doctor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/base/error_of.h"
#include "tests/doctor/doctor_fixture.h"

namespace penstock {
namespace {

using testing::Doctor;

const std::string kExpert = "model.layers.1.mlp.experts.2.";

TEST_F(Doctor, IsSilentOnHealthyUpcycles) {
  std::vector<UpcycleOptions> healthy;
  for (const std::string method :
       {"vanilla", "switch", "locmoe", "mlp", "router-upcycling", "router-upcycling-max", "remoe",
        "smoe", "xmoe", "hash", "noisy-topk"})
    healthy.push_back({.method = method, .k = method == "switch" || method == "hash" ? 1.0 : 2.0});
  ConfigNode segments, lory;
  segments.set("segment_length", 16);
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

/// The sum of the experts stays what the parent computes if the shared expert's output is 0.
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
  // If the user asked for no scale, the doctor only warns.
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

TEST_F(Doctor, OtherWeightsThanTheParents) {
  make({.method = "vanilla"});
  damage([](TensorMap& tensors) { tensors["model.layers.0.self_attn.o_proj.weight"] *= 1.5; });
  const Diagnosis trained = look();  // as after training: reported, but no fault
  EXPECT_EQ(trained.worst(), CheckState::ok);
  testing::expect_says(find(trained, "other weights")->finding, {"1 tensors"});
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

/// All weights are exact, but the model computes another function, as with a wrong reader.
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
  testing::expect_says(far.finding, {"a token's gates sum to 0."});
  testing::expect_says(far.remedy, {"--start parent"});
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

TEST_F(Doctor, TextOfNoWholeNumberOfSegments) {
  ConfigNode segments, lory;
  segments.set("segment_length", 16);
  lory.set("lory", segments);
  make({.method = "lory", .k = 1, .router_options = lory});
  const auto write = [&](const std::string& text) {
    write_file_atomically(real_file_system(), path("short"), std::string_view(text));
  };
  write("Text of 20 bytes' ..");  // a segment and a quarter
  EXPECT_EQ(examine(path("moe"), {.text = path("short")}).layers.size(), 2U);
  write("ten bytes.");
  testing::expect_error([&] { examine(path("moe"), {.text = path("short")}); },
                        {"has 10 tokens, and a segment of the routers has 16"});
}

}  // namespace
}  // namespace penstock
