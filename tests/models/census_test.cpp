// Published counts: ReMoE (arXiv:2412.14711) Table 1, and parameters derived by hand from its
// configurations.
#include "penstock/models/census.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/models/decoder.h"
#include "penstock/models/transformer_xl.h"

namespace penstock {
namespace {

ModelConfig published(std::int64_t layers, std::int64_t d, std::int64_t heads) {
  ModelConfig config;
  config.vocab = 51200;
  config.d_model = d;
  config.layers = layers;
  config.heads = heads;
  config.kv_heads = 4;
  return config;
}

ModelConfig with_experts(ModelConfig config, std::int64_t experts, const std::string& method) {
  config.moe.experts = experts;
  config.router.method = method;
  return config;
}

TEST(Census, ReproducesThePublishedCounts) {
  const ModelConfig small = published(12, 768, 12), medium = published(24, 1024, 16),
                    large = published(24, 1536, 16);
  EXPECT_EQ(count_parameters(small).total, 182471424);
  EXPECT_EQ(count_parameters(medium).total, 469812224);
  EXPECT_EQ(count_parameters(large).total, 978396672);
  for (const char* method : {"topk", "remoe"}) {
    EXPECT_EQ(count_parameters(with_experts(small, 8, method)).total, 777087744);
    EXPECT_EQ(count_parameters(with_experts(medium, 8, method)).total, 2583938048);
    EXPECT_EQ(count_parameters(with_experts(large, 8, method)).total, 5735032320);
  }
}

TEST(Census, ReproducesThePublishedFlops) {
  EXPECT_NEAR(published_flops_per_sequence(published(12, 768, 12), 1024) / 1e9, 995.36, 0.01);
  EXPECT_NEAR(published_flops_per_sequence(published(24, 1024, 16), 1024) / 1e9, 2873.3, 0.05);
  EXPECT_NEAR(published_flops_per_sequence(published(24, 1536, 16), 1024) / 1e9, 5991.5, 0.05);
  // Routing to one expert of eight costs what the dense layer does.
  EXPECT_NEAR(
      published_flops_per_sequence(with_experts(published(12, 768, 12), 8, "topk"), 1024) / 1e9,
      995.36, 0.01);
}

/// Six FLOPs a multiply-add, counted matrix by matrix: heads of another width than d / heads, and a
/// shared expert in one layer of two.
TEST(Census, ThePublishedFlopsKnowHeadWidthsAndSharedExperts) {
  ModelConfig config = with_experts(published(2, 64, 4), 8, "topk");
  config.vocab = 100;
  config.kv_heads = 2;
  config.head_dim = 32;
  config.d_ffn = 256;
  config.moe.every = 2;
  config.moe.shared_width = 24;
  const double s = 16, d = 64, q = 4 * 32, kv = 2 * 32;
  const double attention = 2 * d * q + 2 * d * kv + 2 * s * q;  // unmasked
  const double products = 2 * (attention + 3 * d * 256) + 3 * d * 24 + d * 100;
  EXPECT_DOUBLE_EQ(published_flops_per_sequence(config, 16), 6 * s * products);
}

/// Lory: a router row for each segment, and each segment's blend of 8 experts of three matrices.
TEST(Census, CountsARouterPerSegmentAndTheBlend) {
  ModelConfig config = with_experts(published(2, 64, 4), 8, "topk");
  config.d_ffn = 256;
  const double topk = useful_training_flops(config, 512, 0, 0);
  config.router.method = "lory";
  config.router.parts["lory"] = ConfigNode(ConfigNode::Table{});
  config.router.parts["lory"].set("segment_length", ConfigNode(std::int64_t{128}));
  const double logits = 64.0 * 8, blend = 8 * 3 * 64.0 * 256, segments = 4;
  EXPECT_DOUBLE_EQ(useful_training_flops(config, 512, 0, 0) - topk,
                   6 * 2 * (segments * (logits + blend) - 512 * logits));
}

TEST(Census, CountsTheProductsOfEachScorer) {
  const auto flops = [](const std::string& scorer) {
    ModelConfig config = with_experts(published(2, 64, 4), 8, "topk").resolved();
    config.router.scorer = scorer;
    return useful_training_flops(config, 10, 0, 0);
  };
  // 6 FLOPs a multiply-add, 10 tokens, 2 layers; a perceptron of width 64, a sphere of 8 / 2.
  EXPECT_EQ(flops("mlp") - flops("linear"), 6 * 10 * 2 * 64.0 * 64);
  EXPECT_EQ(flops("cosine") - flops("linear"), 6 * 10 * 2 * (4.0 * 64 + 8 * 4 - 8 * 64));
  EXPECT_EQ(flops("noisy-linear") - flops("linear"), 6 * 10 * 2 * 64.0 * 8);
  EXPECT_EQ(flops("hypernetwork"), flops("linear"));
}

TEST(Census, CountsTrainedScorerParametersOnly) {
  const auto router = [](const std::string& method) {
    return count_parameters(with_experts(published(4, 256, 4), 16, method)).router;
  };
  EXPECT_EQ(router("hyperrouter"), 1024);
  EXPECT_EQ(router("smoe-dropout"), 0);
  EXPECT_EQ(router("smoe"), 16448);
}

TEST(Census, CountsWhatTheBuiltModelHas) {
  for (const char* method : {"dense", "topk", "remoe"}) {
    for (const bool tied : {false, true}) {
      ModelConfig config;
      config.vocab = 50;
      config.d_model = 16;
      config.layers = 3;
      config.heads = 4;
      config.kv_heads = 2;
      config.d_ffn = 24;
      config.tie_embeddings = tied;
      config.qkv_bias = tied;
      config.router.method = method;
      config.moe.experts = 4;
      config.moe.granularity = 2;
      config.moe.every = 2;
      Decoder model(config);
      std::int64_t built = 0;
      for (const auto& parameter : model.parameters()) built += parameter.numel();
      EXPECT_EQ(count_parameters(config).total, built) << method << tied;
    }
  }
}

/// HyperRouter §C.1: Transformer-XL small on enwik8's 204 bytes.
ModelConfig transformer_xl_small() {
  ModelConfig config;
  config.architecture = ModelKind::transformer_xl;
  config.vocab = 204;
  config.d_model = 256;
  config.layers = 4;
  config.heads = 8;
  config.head_dim = 64;
  config.d_ffn = 512;
  config.xl.memory = 512;
  config.moe.experts = 16;
  config.router.method = "topk";
  config.router.k = 2;
  config.router.parts["linear"].set("bias", ConfigNode(true));
  return config;
}

TEST(Census, ReproducesTransformerXlsPublishedCounts) {
  // HyperRouter (EMNLP 2023) Table A4: 19,505,35x and 16,448.
  ModelConfig config = transformer_xl_small();
  const ParameterCensus census = count_parameters(config);
  EXPECT_EQ(census.by_part.backbone, 19505356);
  EXPECT_EQ(census.by_part.router, 16448);
  EXPECT_EQ(census.by_part.hypernetwork, 0);
  EXPECT_EQ(census.total, 19505356 + 16448);
  EXPECT_EQ(census.router, 16448);
  // A frozen router is not trained, but counted by part.
  config.router.parts["linear"].set("frozen", ConfigNode(true));
  EXPECT_EQ(count_parameters(config).by_part.router, 16448);
  EXPECT_EQ(count_parameters(config).router, 0);
  // The dense model of the same width, one network of 8192: 15 fewer biases of 256 per layer.
  config = transformer_xl_small();
  config.d_ffn = 8192;
  config.router = {.method = "dense"};
  EXPECT_EQ(count_parameters(config).total, 19505356 - 4 * 15 * 256);
}

TEST(Census, CountsWhatTheBuiltTransformerXlHas) {
  for (const std::int64_t first : {0, 1, 3})
    for (const bool apart : {false, true}) {
      ModelConfig config = transformer_xl_small();
      config.d_model = 16;
      config.layers = 3;
      config.head_dim = 3;
      config.d_ffn = 24;
      config.moe.first_layers = first;
      config.xl.biases_per_layer = apart;
      if (apart) config.xl.cutoffs = {20, 100};
      TransformerXl model(config);
      std::int64_t built = 0;
      for (const auto& parameter : model.parameters()) built += parameter.numel();
      EXPECT_EQ(count_parameters(config).total, built) << first << apart;
    }
}

TEST(Census, TransformerXlsFlopsByHand) {
  // d=4, 1 layer, 2 heads of 2, f=8, V=10; 3 tokens after 2 remembered: pairs 6 + 3·2 = 12.
  ModelConfig config;
  config.architecture = ModelKind::transformer_xl;
  config.vocab = 10;
  config.d_model = 4;
  config.layers = 1;
  config.heads = 2;
  config.d_ffn = 8;
  config.xl.memory = 2;
  // Per token: qkvo 4·16 = 64, FFN 2·4·8 = 64, head 40 -> 168 products; attention 3 products of
  // width 4 for 12 pairs: 144. Remembered: keys and values 2·16 for 2 positions, 16 for each of 5
  // distances, without the input's gradient: 144 products.
  EXPECT_DOUBLE_EQ(nominal_training_flops(config, 1, 3), 3 * (2 * 3 * 168 + 2 * 144) + 2 * 2 * 144);
}

TEST(Census, ForwardFlopsByHand) {
  // The model above: 2 FLOPs for each product of tokens, pairs, memory and distances.
  ModelConfig config;
  config.architecture = ModelKind::transformer_xl;
  config.vocab = 10;
  config.d_model = 4;
  config.layers = 1;
  config.heads = 2;
  config.d_ffn = 8;
  EXPECT_DOUBLE_EQ(nominal_forward_flops(config, 1, 3, 2, 0), 2 * 3 * 168 + 2 * 144 + 2 * 144);
  // Two rows project the five distances once: 80 products fewer than twice the above.
  EXPECT_DOUBLE_EQ(nominal_forward_flops(config, 2, 3, 2, 0), 2 * (2 * 3 * 168 + 288 + 288) - 160);
  // Four experts in place of the network: a router of 16 products and 64 for each active expert.
  config.moe.experts = 4;
  config.router.method = "topk";
  for (const double k : {1.0, 3.0, 4.0})
    EXPECT_DOUBLE_EQ(nominal_forward_flops(config, 1, 3, 2, k),
                     2 * 3 * (104 + 16 + 64 * k) + 288 + 288);
}

TEST(Census, ForwardFlopsByKAreThePublishedOnes) {
  // HyperRouter Table A3 counts the linear layers of one evaluation batch of 10 x 128 tokens with a
  // memory of 896: (3.4670 + 0.26844 k) e10. Not in it: attention's products and the head. In it,
  // and not here, for the code computes what nothing reads: queries of the memory.
  const ModelConfig config = transformer_xl_small();
  const double pairs = 10 * (128 * 129 / 2 + 128 * 896.0);
  const double attention = 2.0 * 3 * 4 * 512 * pairs, head = 2.0 * 1280 * 256 * 204;
  const double queries_of_memory = 2.0 * 4 * 256 * 512 * 8960;
  for (const double k : {1, 2, 4, 8, 16})
    EXPECT_NEAR(
        nominal_forward_flops(config, 10, 128, 896, k) - attention - head + queries_of_memory,
        (3.4670 + 0.26844 * k) * 1e10, 1e6 * (1 + k))
        << k;
}

TEST(Census, GranularityKeepsActiveSizeAndTotal) {
  ModelConfig plain = with_experts(published(12, 768, 12), 8, "topk"), fine = plain;
  fine.moe.granularity = 4;
  const std::int64_t routers = 12 * 768 * 8;
  EXPECT_EQ(count_parameters(fine).total - count_parameters(plain).total, 3 * routers);
  EXPECT_EQ(count_parameters(fine).active - count_parameters(plain).active, 3 * routers);
  EXPECT_DOUBLE_EQ(published_flops_per_sequence(fine, 1024),
                   published_flops_per_sequence(plain, 1024));
}

/// d=4, 2 layers, 2 query heads and 1 key/value head of 2, f=8, V=10.
ModelConfig tiny(const std::string& method, std::int64_t experts) {
  ModelConfig config;
  config.vocab = 10;
  config.d_model = 4;
  config.layers = 2;
  config.heads = 2;
  config.kv_heads = 1;
  config.d_ffn = 8;
  config.moe.experts = experts;
  config.router.method = method;
  return config;
}

std::int64_t activations(const ModelConfig& config, bool recompute = false) {
  return training_memory(config, 2, 3, recompute).activation_bytes;  // 6 tokens
}

TEST(TrainingMemory, ActivationsByHand) {
  // A layer: residuals 8, what enters products 8, q, k, v and what attention gives 12; the end 12;
  // logits 6·10. The layer that keeps the most counts once more, for the gradients that are held
  // there.
  const auto bytes = [](std::int64_t per_token, std::int64_t rest) {
    return 4 * (6 * per_token + rest);
  };
  // Dense: 3·8 more.
  EXPECT_EQ(activations(tiny("dense", 0)), bytes(3 * (28 + 24) + 12, 60));
  // One expert of four: 4 logits, 2·8, a weight and three indices of 8 bytes.
  ModelConfig topk = tiny("topk", 4);
  EXPECT_EQ(activations(topk), bytes(3 * (28 + 4 + 16 + 7) + 12, 60));
  // ReLU routing begins with two of four, whatever k below that.
  ModelConfig remoe = tiny("remoe", 4);
  EXPECT_EQ(activations(remoe), bytes(3 * (28 + 4 + 32 + 14) + 12, 60));
  remoe.router.k = 3;
  EXPECT_EQ(activations(remoe), bytes(3 * (28 + 4 + 48 + 21) + 12, 60));
  // Recomputing keeps no 2·8.
  EXPECT_EQ(activations(remoe, true), bytes(3 * (28 + 4 + 21) + 12, 60));
  EXPECT_EQ(activations(tiny("dense", 0), true), activations(tiny("dense", 0)));
  // Every second layer: while the backward pass is in the last one, which is dense, all is kept.
  topk.moe.every = 2;
  EXPECT_EQ(activations(topk), bytes(28 + 27 + 2 * (28 + 24) + 12, 60));
  // Lory blends 3·4·8 weights for each segment of 256 tokens.
  const ModelConfig lory = tiny("lory", 4);
  EXPECT_EQ(training_memory(lory, 2, 256).activation_bytes,
            4 * (512 * (3 * (28 + 24) + 12) + 3 * 2 * 96 + 512 * 10));
}

TEST(TrainingMemory, LayersComputedAgainByHand) {
  using enum Recomputed;
  const auto of = [](const char* method, const Recomputation& recomputed) {
    const ModelConfig config = tiny(method, std::string(method) == "dense" ? 0 : 4);
    const TrainingPass pass{.micro_batch = 2, .sequence_length = 3, .recomputed = recomputed};
    return training_memory(config, pass).activation_bytes;
  };
  const auto bytes = [](std::int64_t per_token) { return 4 * (6 * per_token + 60); };
  // A layer's input is 8; what is computed again is there beside the gradients within the layer.
  EXPECT_EQ(of("dense", {layer, layer}), bytes(8 + 8 + 2 * (28 + 24) + 12));
  // The first layer's is there when the second's, 28 + 24 and as much of gradients, has gone.
  EXPECT_EQ(of("dense", {layer, nothing}), bytes(8 + 2 * (28 + 24) + 12));
  EXPECT_EQ(of("dense", {nothing, layer}), bytes(28 + 24 + 8 + 2 * (28 + 24) + 12));
  EXPECT_EQ(of("topk", {layer, layer}), bytes(8 + 8 + 2 * (28 + 27) + 12));
  EXPECT_EQ(of("topk", {layer_and_experts, layer_and_experts}), bytes(8 + 8 + 2 * (28 + 11) + 12));
  EXPECT_EQ(of("topk", {experts, nothing}), bytes(28 + 11 + 2 * (28 + 27) + 12));
}

TEST(TrainingMemory, ProductsInBf16ByHand) {
  const auto more = [](const ModelConfig& config, bool recompute = false) {
    return training_memory(config, 2, 3, recompute, ops::ProductPrecision::bf16).activation_bytes -
           activations(config, recompute);
  };
  const auto bytes = [](std::int64_t per_token, std::int64_t packed) {
    return 4 * 6 * per_token + 2 * packed;
  };
  // A layer: what enters two products 8 to 4, what attention gave 4 / 2 more, what enters the third
  // 8 to 4; the head's 10 rows of 4, twice.
  EXPECT_EQ(more(tiny("dense", 0)), bytes(2 * (-4 + 2 - 4), 2 * 40));
  // The router and the experts read 4 and 4 / 2; four experts of 3·4·8.
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
    return training_memory(config, 1, tokens).activation_bytes - 4 * tokens * (3 * 52 + 12);
  };
  EXPECT_EQ(growth(1 << 20, 3), 3 * (4 << 20));
  EXPECT_EQ(growth(1 << 20, 1000), 32 << 20);
  EXPECT_EQ(growth(1 << 24, 1000), 64 << 20);  // one row
}

TEST(TrainingMemory, WeightsGradientsAndMoments) {
  const ModelConfig config = published(12, 768, 12);
  const TrainingMemory memory = training_memory(config, 1, 1);
  EXPECT_EQ(memory.parameter_bytes, 4 * 182471424LL);
  EXPECT_EQ(memory.gradient_bytes, memory.parameter_bytes);
  EXPECT_EQ(memory.optimizer_bytes, 2 * memory.parameter_bytes);
  EXPECT_EQ(memory.total(), 16 * 182471424LL + memory.activation_bytes);
}

TEST(Census, UsefulFlopsByHand) {
  // d=4, 1 layer, 2 heads of 2, f=8, V=10, 3 tokens in one sequence: pairs 1+2+3 = 6.
  ModelConfig config;
  config.vocab = 10;
  config.d_model = 4;
  config.layers = 1;
  config.heads = 2;
  config.d_ffn = 8;
  config = config.resolved();
  EXPECT_EQ(causal_pairs(1, 3), 6);
  // Per token: qkvo 4·16 = 64, FFN 3·4·8 = 96, head 40 -> 200 products, 400 FLOPs; attention
  // 2 products · 2 FLOPs · width 4 · 6 pairs = 96.  (3·400 + 96)·3 = 3888.
  EXPECT_DOUBLE_EQ(useful_training_flops(config, 3, 6, 0), 3888);
  config.moe.experts = 2;
  config.router.method = "topk";
  // FFN by assignments: 5 of 96 products each; router 4·2 = 8 products a token.
  // (3·2·(64+8+40) + 5·2·96 + 96)·3 = (672 + 960 + 96)·3 = 5184.
  EXPECT_DOUBLE_EQ(useful_training_flops(config, 3, 6, 5), 5184);
}

}  // namespace
}  // namespace penstock
