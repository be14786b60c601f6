// Activations, weights and moments against sums by hand.

#include "penstock/models/counts/training_memory.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/models/published_models.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

std::int64_t activations(const ModelConfig& config, bool recompute = false) {
  return training_memory(config.resolved(), 2, 3, recompute).activation_bytes;  // 6 tokens
}

TEST(TrainingMemory, ActivationsByHand) {
  // Numbers that a layer keeps for each token: residuals 8, inputs of products 8, q, k, v and
  // attention's output 12. The model's end keeps 12 a token, and the logits take 6·10. The layer
  // that keeps the most counts once more, for the gradients that exist during its backward pass.
  const auto bytes = [](std::int64_t per_token, std::int64_t rest) {
    return 4 * (6 * per_token + rest);
  };
  // A dense feed-forward network keeps 3·8 more.
  EXPECT_EQ(activations(tiny("dense", 0)), bytes(3 * (28 + 24) + 12, 60));
  // One expert of four keeps 4 logits, 2·8 inner numbers, a weight and three indices of 8 bytes.
  ModelConfig topk = tiny("topk", 4);
  EXPECT_EQ(activations(topk), bytes(3 * (28 + 4 + 16 + 7) + 12, 60));
  // A perceptron as wide as the model keeps its GELU's input and output.
  EXPECT_EQ(activations(tiny("mlp", 4)), bytes(3 * (28 + 4 + 2 * 4 + 16 + 7) + 12, 60));
  // ReLU routing may have all four experts on in its first steps.
  ModelConfig remoe = tiny("remoe", 4);
  EXPECT_EQ(activations(remoe), bytes(3 * (28 + 4 + 64 + 28) + 12, 60));
  // At most two with a cap of two. With a start at k = 1, half of the experts are counted.
  ModelConfig capped = tiny("remoe", 4), at_k = tiny("remoe", 4);
  capped.router.parts = {{"relu", testing::node({{"most", std::int64_t{2}}})}};
  EXPECT_EQ(activations(capped), bytes(3 * (28 + 4 + 32 + 14) + 12, 60));
  at_k.router.balancers = {"threshold"};
  EXPECT_EQ(activations(at_k), bytes(3 * (28 + 4 + 64 + 28) + 12, 60));
  at_k.router.parts = {{"threshold", testing::node({{"start", std::string("target")}})}};
  EXPECT_EQ(activations(at_k), bytes(3 * (28 + 4 + 32 + 14) + 12, 60));
  at_k.router.parts["relu"] = testing::node({{"most", std::int64_t{1}}});
  EXPECT_EQ(activations(at_k), bytes(3 * (28 + 4 + 16 + 7) + 12, 60));
  // Recomputed experts do not keep the 2·8.
  EXPECT_EQ(activations(remoe, true), bytes(3 * (28 + 4 + 28) + 12, 60));
  EXPECT_EQ(activations(tiny("dense", 0), true), activations(tiny("dense", 0)));
  // With experts in every second layer, the last layer is dense. During its backward pass, all
  // layers' numbers are kept.
  topk.moe.every = 2;
  EXPECT_EQ(activations(topk), bytes(28 + 27 + 2 * (28 + 24) + 12, 60));
  // Lory blends 3·4·8 weights for each segment of 256 tokens.
  const ModelConfig lory = tiny("lory", 4);
  EXPECT_EQ(training_memory(lory.resolved(), 2, 256).activation_bytes,
            4 * (512 * (3 * (28 + 24) + 12) + 3 * 2 * 96 + 512 * 10));
}

TEST(TrainingMemory, LayersComputedAgainByHand) {
  using enum Recomputed;
  const auto of = [](const char* method, const Recomputation& recomputed) {
    const ModelConfig config = tiny(method, std::string(method) == "dense" ? 0 : 4);
    const TrainingPass pass{.micro_batch = 2, .sequence_length = 3, .recomputed = recomputed};
    return training_memory(config.resolved(), pass).activation_bytes;
  };
  const auto bytes = [](std::int64_t per_token) { return 4 * (6 * per_token + 60); };
  // A layer's input is 8 numbers. The recomputed numbers exist together with the gradients within
  // the layer.
  EXPECT_EQ(of("dense", {layer, layer}), bytes(8 + 8 + 2 * (28 + 24) + 12));
  // The first layer's recomputed numbers come after the second layer's 28 + 24, and as much of
  // gradients, are freed.
  EXPECT_EQ(of("dense", {layer, nothing}), bytes(8 + 2 * (28 + 24) + 12));
  EXPECT_EQ(of("dense", {nothing, layer}), bytes(28 + 24 + 8 + 2 * (28 + 24) + 12));
  EXPECT_EQ(of("topk", {layer, layer}), bytes(8 + 8 + 2 * (28 + 27) + 12));
  EXPECT_EQ(of("topk", {layer_and_experts, layer_and_experts}), bytes(8 + 8 + 2 * (28 + 11) + 12));
  EXPECT_EQ(of("topk", {experts, nothing}), bytes(28 + 11 + 2 * (28 + 27) + 12));
}

TEST(TrainingMemory, ProductsInBf16ByHand) {
  const auto more = [](const ModelConfig& config, bool recompute = false) {
    return training_memory(config.resolved(), 2, 3, recompute, ops::ProductPrecision::bf16)
               .activation_bytes -
           activations(config, recompute);
  };
  const auto bytes = [](std::int64_t per_token, std::int64_t packed) {
    return 4 * 6 * per_token + 2 * packed;
  };
  // Per layer, the inputs of two products shrink from 8 to 4, attention's output takes 4 / 2 more,
  // and the input of the third product shrinks from 8 to 4. The head's 10 rows of 4 are packed
  // twice.
  EXPECT_EQ(more(tiny("dense", 0)), bytes(2 * (-4 + 2 - 4), 2 * 40));
  // The router and the experts read 4 and 4 / 2. Each of the four experts has 3·4·8 weights.
  EXPECT_EQ(more(tiny("topk", 4)), bytes(2 * 2, 4 * 96));
  EXPECT_EQ(more(tiny("topk", 4), true), bytes(2 * 2, 4 * (96 + 64)));
  ModelConfig shared = tiny("topk", 4);
  shared.moe.shared_width = 6;  // reads 4 / 2 more, and keeps 6 / 2 less
  EXPECT_EQ(more(shared), bytes(2 * (2 + 2 - 3), 4 * 96));
}

TEST(TrainingMemory, LogitsTakeAChunkAtMost) {
  const auto growth = [](std::int64_t vocab, std::int64_t tokens) {
    ModelConfig config = tiny("dense", 0);
    config.vocab = vocab;
    return training_memory(config.resolved(), 1, tokens).activation_bytes -
           4 * tokens * (3 * 52 + 12);
  };
  EXPECT_EQ(growth(1 << 20, 3), 3 * (4 << 20));
  EXPECT_EQ(growth(1 << 20, 1000), 32 << 20);
  EXPECT_EQ(growth(1 << 24, 1000), 64 << 20);  // one row
}

TEST(TrainingMemory, WeightsGradientsAndMoments) {
  const ModelConfig config = published(12, 768, 12);
  const TrainingMemory memory = training_memory(config.resolved(), 1, 1);
  EXPECT_EQ(memory.parameter_bytes, 4 * 182471424LL);
  EXPECT_EQ(memory.gradient_bytes, memory.parameter_bytes);
  EXPECT_EQ(memory.optimizer_bytes, 2 * memory.parameter_bytes);
  EXPECT_EQ(memory.total(), 16 * 182471424LL + memory.activation_bytes);
}

}  // namespace
}  // namespace penstock
