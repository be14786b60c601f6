#include "penstock/models/decoder.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/ops/ops.h"
#include "tests/base/error_of.h"

namespace penstock {
namespace {

ModelConfig tiny(const std::string& method) {
  ModelConfig config{.vocab = 19, .d_model = 16, .layers = 2, .heads = 4, .kv_heads = 2};
  config.d_ffn = 24;
  config.init_std = 0.3;  // large enough that a wrong wire shows in the logits
  config.router.method = method;
  if (method != "dense") config.moe.experts = 4;
  return config;
}

at::Tensor tokens(std::int64_t batch, std::int64_t length) {
  return torch::randint(0, 19, {batch, length}, torch::kInt64);
}

at::Tensor logits(Decoder& model, const at::Tensor& ids,
                  const std::optional<at::Tensor>& starts = std::nullopt) {
  torch::NoGradGuard no_grad;
  return model.logits(model.forward({.tokens = ids, .starts = starts}, {}).hidden);
}

TEST(Decoder, IsCausal) {
  for (const char* method : {"dense", "topk", "remoe", "hash"}) {
    torch::manual_seed(1);
    Decoder model(tiny(method));
    model.initialize(InitialDraws(1));
    model.to(torch::kDouble);
    at::Tensor ids = tokens(1, 9);
    const at::Tensor before = logits(model, ids);
    ids[0][6] = (ids[0][6].item<std::int64_t>() + 1) % 19;
    const at::Tensor after = logits(model, ids);
    EXPECT_TRUE(torch::allclose(before.narrow(0, 0, 6), after.narrow(0, 0, 6), 0, 1e-12)) << method;
    EXPECT_GT((before - after).abs()[6].max().item<double>(), 1e-6) << method;
  }
}

TEST(Decoder, PositionsMatter) {
  // With one layer and no rotation, the last row would not depend on the order of the rows before
  // it.
  torch::manual_seed(8);
  ModelConfig config = tiny("dense");
  config.layers = 1;
  Decoder model(config);
  model.initialize(InitialDraws(8));
  model.to(torch::kDouble);
  const at::Tensor ids = torch::tensor({1, 2, 3, 4}, torch::kInt64).view({1, 4});
  const at::Tensor swapped = torch::tensor({2, 1, 3, 4}, torch::kInt64).view({1, 4});
  EXPECT_FALSE(torch::allclose(logits(model, ids)[3], logits(model, swapped)[3], 0, 1e-6));
}

TEST(Decoder, RowsOfABatchDoNotMix) {
  torch::manual_seed(2);
  Decoder model(tiny("topk"));
  model.initialize(InitialDraws(2));
  model.to(torch::kDouble);
  const at::Tensor ids = tokens(3, 7);
  const at::Tensor whole = logits(model, ids).view({3, 7, 19});
  for (int row = 0; row < 3; ++row)
    EXPECT_TRUE(torch::allclose(whole[row], logits(model, ids.narrow(0, row, 1)), 0, 1e-12));
}

TEST(Decoder, IsolatedDocumentsSeeNothingBeforeTheirStart) {
  torch::manual_seed(3);
  Decoder model(tiny("dense"));
  model.initialize(InitialDraws(3));
  model.to(torch::kDouble);
  at::Tensor ids = tokens(1, 8);
  const at::Tensor starts = torch::tensor({0, 0, 0, 3, 3, 3, 3, 3}, torch::kInt64).view({1, 8});
  const at::Tensor before = logits(model, ids, starts);
  ids[0][1] = (ids[0][1].item<std::int64_t>() + 1) % 19;
  const at::Tensor after = logits(model, ids, starts);
  EXPECT_TRUE(torch::allclose(before.narrow(0, 3, 5), after.narrow(0, 3, 5), 0, 1e-12));
  EXPECT_FALSE(torch::allclose(before[2], after[2], 0, 1e-6));
}

TEST(Decoder, HiddenTapSeesTheStreamAfterEachLayer) {
  torch::manual_seed(7);
  Decoder model(tiny("topk"));
  model.initialize(InitialDraws(7));
  model.to(torch::kDouble);
  std::map<std::string, at::Tensor> memory;
  for (auto& item : model.named_parameters()) memory[item.key()] = item.value().detach();
  std::vector<at::Tensor> hidden;
  torch::NoGradGuard no_grad;
  const at::Tensor ids = tokens(2, 5);
  const at::Tensor out =
      model.logits(model
                       .forward({.tokens = ids}, {}, {},
                                [&](std::int64_t, const at::Tensor& h) { hidden.push_back(h); })
                       .hidden);
  ASSERT_EQ(hidden.size(), 2u);
  // The head reads the normed output of the last layer.
  const at::Tensor last = hidden[1].view({-1, 16});
  const at::Tensor normed = last * (last.square().mean(-1, true) + model.config().norm_eps).rsqrt();
  EXPECT_TRUE(torch::allclose(normed.matmul(memory.at("lm_head").t()), out, 1e-9, 1e-12));
  // If the second layer adds nothing, its output is the first layer's.
  memory.at("layer_1.self_attn.o_proj.weight").zero_();
  memory.at("layer_1.mlp.experts.down").zero_();
  const at::Tensor first = hidden[0];
  hidden.clear();
  model.forward({.tokens = ids}, {}, {},
                [&](std::int64_t, const at::Tensor& h) { hidden.push_back(h); });
  EXPECT_TRUE(torch::allclose(hidden[1], first, 0, 1e-12));
}

/// With λ at 0.5 the sparsity loss is about as large as the language loss. With the initial λ of
/// 1e-8, its gradient would be smaller than the tolerance.
TEST(Decoder, WholeModelGradientAgreesWithFiniteDifferences) {
  for (const char* method : {"dense", "topk", "remoe"}) {
    torch::manual_seed(4);
    Decoder model(tiny(method));
    model.initialize(InitialDraws(4));
    model.to(torch::kDouble);
    for (const auto& balancer : model.balancers())
      for (auto& buffer : balancer->named_buffers()) buffer.value().fill_(0.5);
    const at::Tensor ids = tokens(2, 6), targets = tokens(2, 6).view({-1});
    const auto loss = [&] {
      RoutingContext context;
      context.training = true;
      const ModelOutput out = model.forward({.tokens = ids}, context);
      const at::Tensor ce = ops::linear_cross_entropy(out.hidden, model.head(), targets);
      return out.auxiliary_loss.defined() ? ce + out.auxiliary_loss : ce;
    };
    loss().backward();
    if (std::string(method) == "remoe") {
      const ModelOutput out = model.forward({.tokens = ids}, {.training = true});
      EXPECT_GT(out.auxiliary_loss.item<double>(), 0.05);
    }
    for (auto& item : model.named_parameters()) {
      at::Tensor weight = item.value();
      const at::Tensor flat = weight.detach().view({-1});
      const at::Tensor grad =
          weight.grad().defined() ? weight.grad().view({-1}) : torch::zeros_like(flat);
      const std::int64_t index = flat.numel() / 2;  // one entry of each parameter
      const double saved = flat[index].item<double>(), step = 1e-6;
      torch::NoGradGuard no_grad;
      flat[index] = saved + step;
      const double up = loss().item<double>();
      flat[index] = saved - step;
      const double down = loss().item<double>();
      flat[index] = saved;
      EXPECT_NEAR(grad[index].item<double>(), (up - down) / (2 * step), 2e-7)
          << method << " " << item.key();
    }
  }
}

TEST(TensorNames, RoundTripAndFuseAsHuggingFaceNames) {
  torch::manual_seed(5);
  Decoder source(tiny("remoe")), target(tiny("remoe"));
  source.initialize(InitialDraws(5));
  target.initialize(InitialDraws(9));
  const auto tensors = file_tensors(source);
  EXPECT_EQ(tensors.at("model.layers.1.mlp.experts.3.up_proj.weight").sizes(),
            (at::IntArrayRef{24, 16}));
  EXPECT_EQ(tensors.at("model.layers.0.mlp.gate.weight").sizes(), (at::IntArrayRef{4, 16}));
  EXPECT_EQ(tensors.at("model.layers.0.self_attn.k_proj.weight").sizes(), (at::IntArrayRef{8, 16}));
  EXPECT_EQ(tensors.count("lm_head.weight"), 1U);
  const at::Tensor ids = tokens(2, 5);
  EXPECT_FALSE(torch::equal(logits(source, ids), logits(target, ids)));
  load_file_tensors(target, tensors, "test");
  EXPECT_TRUE(torch::equal(logits(source, ids), logits(target, ids)));
}

TEST(TensorNames, SplitsTheFusedProjectionOfQueriesKeysAndValues) {
  torch::manual_seed(6);
  ModelConfig config = tiny("dense");
  config.qkv_bias = true;
  Decoder model(config);
  model.initialize(InitialDraws(6));
  std::map<std::string, at::Tensor> memory;
  for (auto& item : model.named_parameters()) memory[item.key()] = item.value().detach();
  const auto tensors = file_tensors(model);
  for (const char* tail : {"weight", "bias"}) {
    const std::string stem = "model.layers.1.self_attn.";
    const at::Tensor fused = memory.at(std::string("layer_1.self_attn.qkv_proj.") + tail);
    fused.normal_();  // biases start at zero
    EXPECT_EQ(fused.size(0), 16 + 8 + 8);
    std::vector<at::Tensor> parts;
    for (const char* part : {"q_proj.", "k_proj.", "v_proj."})
      parts.push_back(tensors.at(stem + part + tail));
    EXPECT_EQ(parts[0].size(0), 16);
    EXPECT_TRUE(torch::equal(torch::cat(parts), fused)) << tail;
    EXPECT_FALSE(tensors.count(stem + "qkv_proj." + tail));
  }
}

TEST(TensorNames, NamesTheMissingUnknownAndMisshaped) {
  Decoder model(tiny("dense"));
  model.initialize(InitialDraws(6));
  const auto message = [&](std::map<std::string, at::Tensor> tensors) -> std::string {
    return testing::error_or("", [&] { load_file_tensors(model, tensors, "weights"); });
  };
  auto tensors = file_tensors(model);
  tensors.erase("model.norm.weight");
  testing::expect_says(message(tensors), {"model.norm.weight"});
  tensors = file_tensors(model);
  tensors["model.layers.9.extra"] = torch::zeros({1});
  testing::expect_says(message(tensors), {"model.layers.9.extra"});
  tensors = file_tensors(model);
  tensors["model.layers.0.self_attn.q_proj.weight"] = torch::zeros({16, 15});
  testing::expect_says(message(tensors), {"q_proj"});
}

TEST(ModelConfig, InitSaysTheDeviationOfEachMatrix) {
  ModelConfig config = tiny("topk");
  config.layers = 8;
  config.init_std = 0.02;
  const auto deviations = [&](WeightInit init) {
    config.init = init;
    return std::vector<double>{config.weight_std(32), config.output_std(32),
                               config.moe_options(0).output_std};
  };
  EXPECT_EQ(deviations(WeightInit::flat), (std::vector<double>{0.02, 0.02, 0.02}));
  EXPECT_EQ(deviations(WeightInit::normal), (std::vector<double>{0.02, 0.005, 0.005}));
  EXPECT_DOUBLE_EQ(deviations(WeightInit::fan_in)[1], 1 / std::sqrt(96.0));
  // The weights of a built model have these deviations.
  config.init = WeightInit::flat;
  config.d_model = config.heads * 32;
  config = config.resolved();
  const auto model = make_model(config, 1);
  const auto tensors = file_tensors(*model);
  for (const std::string name : {"self_attn.o_proj.weight", "mlp.experts.1.down_proj.weight"})
    EXPECT_NEAR(tensors.at("model.layers.3." + name).std().item<double>(), 0.02, 0.002) << name;
}

TEST(ModelConfig, SaysWhatDoesNotFit) {
  const auto message = [](const ModelConfig& config) -> std::string {
    return testing::error_or("", [&] { config.resolved(); });
  };
  ModelConfig config = tiny("topk");
  config.moe.granularity = 5;
  testing::expect_says(message(config), {"granularity"});
  config = tiny("topk");
  config.router.k = 5;
  testing::expect_says(message(config), {"model.router.k"});
  config = tiny("topk");
  config.moe.experts = 1;
  testing::expect_says(message(config), {"model.moe.experts"});
  config = tiny("hash");
  config.router.k = 2;
  testing::expect_says(message(config), {"hash"});
  config = tiny("dense");
  config.kv_heads = 3;
  testing::expect_says(message(config), {"kv_heads"});
}

}  // namespace
}  // namespace penstock
