// Transformer-XL against the numbers of transformer_xl_numbers.py, and the effect of its memory.
#include "penstock/models/transformer_xl.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <set>

#include "penstock/base/error.h"
#include "penstock/models/formats/tensor_names.h"
#include "tests/models/script_numbers.h"

namespace penstock {
namespace {

constexpr std::int64_t kXlVocab = 13;

ModelConfig small_xl() {
  ModelConfig config{.architecture = ModelKind::transformer_xl, .vocab = kXlVocab, .d_model = 8};
  config.layers = 2;
  config.heads = 2;
  config.head_dim = 3;
  config.d_ffn = 5;
  config.init_std = 0.3;
  config.xl.memory = 4;
  config.moe.experts = 4;
  config.moe.first_layers = 1;
  config.router.method = "topk";
  config.router.k = 2;
  config.router.balancers.emplace();
  config.router.parts["linear"].set("bias", true);
  config.router.parts["topk"].set("softmax", "after");
  return config;
}

ModelConfig dense_xl() {
  ModelConfig config = small_xl();
  config.router = {.method = "dense"};
  return config;
}

at::Tensor pattern_ids(std::int64_t batch, std::int64_t begin, std::int64_t length) {
  const at::Tensor i = torch::arange(begin, begin + length).unsqueeze(0),
                   b = torch::arange(batch).unsqueeze(1);
  return (7 * i + 3 * i * i + 5 * b).remainder(kXlVocab);
}

void expect_script_numbers(const std::string& wanted, const ModelConfig& config) {
  TransformerXl model(config);
  model.initialize(InitialDraws(1));
  testing::fill_by_rule(model);
  const auto expected = testing::script_numbers("transformer_xl_numbers.txt", wanted);
  ASSERT_GT(expected.size(), 30u) << wanted;

  ModelMemory memory;
  at::Tensor total = torch::zeros({}, torch::kDouble);
  std::int64_t begin = 0;
  std::size_t segment = 0;
  for (const std::int64_t length : {5, 5, 3}) {
    const at::Tensor ids = pattern_ids(2, begin, length + 1);
    ModelOutput out =
        model.forward({.tokens = ids.narrow(1, 0, length), .memory = std::move(memory)}, {});
    const at::Tensor targets = ids.narrow(1, 1, length).reshape({-1});
    const at::Tensor loss = model.loss(out.hidden, targets);
    const std::string name = "loss_" + std::to_string(segment++);
    EXPECT_NEAR(loss.item<double>(), expected.at(name).at(0), 1e-10) << wanted << " " << name;
    EXPECT_NEAR(model.losses(out.hidden, targets).mean().item<double>(), expected.at(name).at(0),
                1e-10);
    EXPECT_NEAR(model.logits(out.hidden)
                    .log_softmax(1)
                    .gather(1, targets.unsqueeze(1))
                    .mean()
                    .item<double>(),
                -expected.at(name).at(0), 1e-10);
    total = total + loss;
    memory = std::move(out.memory);
    begin += length;
  }
  total.backward();
  EXPECT_EQ(file_tensors(model).size() + 3, expected.size());
  testing::expect_gradients(model, expected);
}

TEST(TransformerXl, ForwardAndGradientsAgreeWithTheScript) {
  expect_script_numbers("shared", small_xl());
}

TEST(TransformerXl, AMemoryLongerThanASegmentAgreesWithTheScript) {
  ModelConfig config = small_xl();
  config.xl.memory = 7;
  expect_script_numbers("long", config);
}

TEST(TransformerXl, AdaptiveSoftmaxAndBiasesPerLayerAgreeWithTheScript) {
  ModelConfig config = small_xl();
  config.xl.cutoffs = {6, 10};
  config.xl.biases_per_layer = true;
  expect_script_numbers("adaptive", config);
}

TEST(TransformerXl, SegmentsWithMemoryAreOneLongPass) {
  // A memory that holds every position gives the outputs of one pass. It leaves out only gradients.
  for (const ModelConfig& config : {small_xl(), dense_xl()}) {
    torch::manual_seed(1);
    TransformerXl model(config);
    model.initialize(InitialDraws(1));
    model.to(torch::kDouble);
    torch::NoGradGuard no_grad;
    const at::Tensor ids = pattern_ids(2, 0, 12);
    const at::Tensor whole = model.forward({.tokens = ids}, {}).hidden.view({2, 12, 8});
    ModelMemory memory;
    std::int64_t begin = 0;
    for (const std::int64_t length : {5, 1, 6}) {
      ModelOutput out = model.forward(
          {.tokens = ids.narrow(1, begin, length), .memory = memory, .memory_length = 100}, {});
      EXPECT_TRUE(torch::allclose(out.hidden.view({2, length, 8}), whole.narrow(1, begin, length),
                                  0, 1e-11))
          << begin;
      memory = std::move(out.memory);
      begin += length;
      EXPECT_EQ(memory.at(0).size(1), begin);
    }
  }
}

TEST(TransformerXl, MemoryHoldsTheLastInputsOfEachLayerAndNoGraph) {
  torch::manual_seed(2);
  TransformerXl model(small_xl());
  model.initialize(InitialDraws(2));
  model.to(torch::kDouble);
  std::vector<at::Tensor> inputs;
  const at::Tensor ids = pattern_ids(1, 0, 3);
  ModelOutput first = model.forward(
      {.tokens = ids}, {}, {}, [&](std::int64_t, const at::Tensor& x) { inputs.push_back(x); });
  ASSERT_EQ(first.memory.size(), 2u);
  EXPECT_EQ(first.memory[0].size(1), 3);  // not padded: absent positions are not read
  EXPECT_TRUE(torch::equal(first.memory[1], inputs[0].detach()));
  const ModelOutput second = model.forward({.tokens = ids, .memory = first.memory}, {});
  EXPECT_EQ(second.memory[1].size(1), 4);
  EXPECT_TRUE(torch::equal(second.memory[1].narrow(1, 0, 1), first.memory[1].narrow(1, 2, 1)));
  for (const at::Tensor& layer : second.memory) EXPECT_FALSE(layer.requires_grad());
  EXPECT_TRUE(model.forward({.tokens = ids, .memory_length = 0}, {}).memory.empty());
}

TEST(TransformerXl, IsCausalAndReadsItsMemory) {
  torch::manual_seed(3);
  TransformerXl model(small_xl());
  model.initialize(InitialDraws(3));
  model.to(torch::kDouble);
  torch::NoGradGuard no_grad;
  const ModelMemory memory = model.forward({.tokens = pattern_ids(1, 0, 4)}, {}).memory;
  const at::Tensor ids = pattern_ids(1, 4, 6);
  const auto hidden = [&](const at::Tensor& tokens, const ModelMemory& before) {
    return model.forward({.tokens = tokens, .memory = before}, {}).hidden;
  };
  const at::Tensor before = hidden(ids, memory);
  at::Tensor changed = ids.clone();
  changed[0][4] = (changed[0][4] + 1) % kXlVocab;
  const at::Tensor after = hidden(changed, memory);
  EXPECT_TRUE(torch::allclose(before.narrow(0, 0, 4), after.narrow(0, 0, 4), 0, 1e-12));
  EXPECT_GT((before - after).abs()[4].max().item<double>(), 1e-6);
  ModelMemory other = memory;
  other[0] = other[0].clone();
  other[0][0][0] += 1;  // the oldest position, only in the first layer
  const at::Tensor recalled = hidden(ids, other);
  for (std::int64_t row = 0; row < 6; ++row)
    EXPECT_GT((before - recalled).abs()[row].max().item<double>(), 1e-9) << row;
}

TEST(TransformerXl, DropoutFollowsTheGeneratorAndStopsOutsideTraining) {
  ModelConfig config = small_xl();
  config.xl.dropout = 0.3;
  torch::manual_seed(4);
  TransformerXl model(config);
  model.initialize(InitialDraws(4));
  const at::Tensor ids = pattern_ids(2, 0, 6);
  const auto hidden = [&](bool training, std::uint64_t seed) {
    RoutingContext context{.training = training, .generator = at::detail::createCPUGenerator(seed)};
    return model.forward({.tokens = ids}, context).hidden;
  };
  EXPECT_TRUE(torch::equal(hidden(true, 1), hidden(true, 1)));
  EXPECT_FALSE(torch::allclose(hidden(true, 1), hidden(true, 2)));
  EXPECT_TRUE(torch::equal(hidden(false, 1), hidden(false, 2)));
  // The last dropout applies to the output rows: about 0.3 of the elements are 0.
  const double dropped = hidden(true, 1).eq(0).to(torch::kDouble).mean().item<double>();
  EXPECT_NEAR(dropped, 0.3, 0.15);
}

TEST(TransformerXl, FeedForwardsMayHaveADropoutOfTheirOwn) {
  const auto hidden = [](double dropout, double ffn_dropout) {
    ModelConfig config = dense_xl();
    config.xl.dropout = dropout;
    config.xl.ffn_dropout = ffn_dropout;
    TransformerXl model(config.resolved());
    model.initialize(InitialDraws(4));
    RoutingContext context{.training = true, .generator = at::detail::createCPUGenerator(1)};
    return model.forward({.tokens = pattern_ids(2, 0, 6)}, context).hidden;
  };
  const at::Tensor none = hidden(0, -1), inside = hidden(0, 0.3);
  EXPECT_TRUE(torch::equal(none, hidden(0, 0)));
  EXPECT_FALSE(torch::allclose(none, inside));
  EXPECT_EQ(inside.eq(0).sum().item<std::int64_t>(), 0);  // the output rows have no dropout
  EXPECT_TRUE(torch::equal(hidden(0.3, -1), hidden(0.3, 0.3)));
  EXPECT_FALSE(torch::allclose(hidden(0.3, -1), hidden(0.3, 0)));
}

TEST(TransformerXl, BlockDropoutLeavesOutWholeBlocksAndDoesNotScaleTheRest) {
  ModelConfig config = dense_xl();
  config.d_ffn = 8;
  config.layers = 1;
  config.xl.ffn_blocks = 4;
  config.xl.ffn_block_dropout = 0.5;
  torch::manual_seed(5);
  TransformerXl model(config);
  model.initialize(InitialDraws(5));
  const at::Tensor ids = pattern_ids(2, 0, 6);
  /// The gradient of the output matrix, [d, f]. The column of a dropped neuron is 0.
  const auto gradient = [&](bool training, std::uint64_t seed) {
    RoutingContext context{.training = training, .generator = at::detail::createCPUGenerator(seed)};
    model.zero_grad();
    model.forward({.tokens = ids}, context).hidden.select(1, 0).pow(2).sum().backward();
    return model.named_parameters()["layer_0.mlp.down"].grad().clone();
  };
  const at::Tensor whole = gradient(false, 0), alive = whole.abs().sum(0).gt(0);
  std::set<std::int64_t> counts;
  std::int64_t complete = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    const at::Tensor some = gradient(true, seed), used = some.abs().sum(0).gt(0);
    for (std::int64_t j = 0; j < 4; ++j) {
      const bool both = alive[j].item<bool>() && alive[j + 4].item<bool>();
      EXPECT_TRUE(!both || torch::equal(used[j], used[j + 4])) << seed << " " << j;
    }
    counts.insert(used.sum().item<std::int64_t>());
    if (!torch::equal(used, alive)) continue;
    ++complete;
    EXPECT_TRUE(torch::equal(some, whole)) << seed;
  }
  EXPECT_GT(counts.size(), 2u);
  EXPECT_GT(complete, 0);  // (1/2)^4 of the seeds drop nothing
  EXPECT_LT(complete, 40);
}

TEST(TransformerXl, InitialisesAsPublished) {
  ModelConfig config = small_xl();
  config.init_std = 0.02;
  config.d_model = 128;
  config.d_ffn = 64;
  config.head_dim = 16;
  torch::manual_seed(6);
  TransformerXl model(config);
  model.initialize(InitialDraws(6));
  for (const auto& [name, tensor] : file_tensors(model)) {
    const bool bias = tensor.dim() == 1, gain = name.find("norm.weight") != std::string::npos;
    if (gain) {
      EXPECT_NEAR(tensor.mean().item<double>(), 1, 0.01) << name;
    }
    if (!bias || gain) {
      EXPECT_NEAR(tensor.std().item<double>(), 0.02, 0.02 * 4 / std::sqrt(tensor.numel())) << name;
    } else {
      EXPECT_EQ(tensor.abs().max().item<double>(), 0) << name;
    }
  }
}

TEST(TransformerXl, RefusesWhatDoesNotFit) {
  TransformerXl model(small_xl());
  model.initialize(InitialDraws(6));
  const at::Tensor ids = pattern_ids(2, 0, 3);
  EXPECT_THROW(model.forward({.tokens = ids, .starts = torch::zeros_like(ids)}, {}), Error);
  const ModelMemory memory = model.forward({.tokens = pattern_ids(1, 0, 3)}, {}).memory;
  EXPECT_THROW(model.forward({.tokens = ids, .memory = memory}, {}), Error);
  ModelConfig config = small_xl();
  config.xl.cutoffs = {10, 6};
  EXPECT_THROW(config.resolved(), Error);
  config.xl.cutoffs = {6, 13};
  EXPECT_THROW(config.resolved(), Error);
  config = small_xl();
  config.kv_heads = 1;
  EXPECT_THROW(config.resolved(), Error);
}

}  // namespace
}  // namespace penstock
