// FLOPs against the papers' tables and against sums by hand.

#include "penstock/models/counts/flops.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/models/published_models.h"

namespace penstock {
namespace {

TEST(Flops, ReproducesThePublishedFlops) {
  EXPECT_NEAR(published_flops_per_sequence(published(12, 768, 12).resolved(), 1024) / 1e9, 995.36,
              0.01);
  EXPECT_NEAR(published_flops_per_sequence(published(24, 1024, 16).resolved(), 1024) / 1e9, 2873.3,
              0.05);
  EXPECT_NEAR(published_flops_per_sequence(published(24, 1536, 16).resolved(), 1024) / 1e9, 5991.5,
              0.05);
  // Routing to one expert of eight costs as much as the dense layer.
  EXPECT_NEAR(published_flops_per_sequence(
                  with_experts(published(12, 768, 12), 8, "topk").resolved(), 1024) /
                  1e9,
              995.36, 0.01);
}

/// Six FLOPs a multiply-add, counted matrix by matrix. The heads' width is not d / heads, and one
/// layer of two has a shared expert.
TEST(Flops, ThePublishedFlopsKnowHeadWidthsAndSharedExperts) {
  ModelConfig config = with_experts(published(2, 64, 4), 8, "topk");
  config.vocab = 100;
  config.kv_heads = 2;
  config.head_dim = 32;
  config.d_ffn = 256;
  config.moe.every = 2;
  config.moe.shared_width = 24;
  const double s = 16, d = 64, q = 4 * 32, kv = 2 * 32;
  const double attention = 2 * d * q + 2 * d * kv + 2 * s * q;  // without the causal mask
  const double multiply_adds = 2 * (attention + 3 * d * 256) + 3 * d * 24 + d * 100;
  EXPECT_DOUBLE_EQ(published_flops_per_sequence(config.resolved(), 16), 6 * s * multiply_adds);
}

/// Lory computes a router row for each segment, and blends 8 experts of three matrices for each
/// segment.
TEST(Flops, CountsARouterPerSegmentAndTheBlend) {
  ModelConfig config = with_experts(published(2, 64, 4), 8, "topk");
  config.d_ffn = 256;
  const double topk = useful_training_flops(config.resolved(), 512, 0, 0);
  config.router.method = "lory";
  config.router.parts["lory"] = ConfigNode(ConfigNode::Table{});
  config.router.parts["lory"].set("segment_length", 128);
  const double logits = 64.0 * 8, blend = 8 * 3 * 64.0 * 256, segments = 4;
  EXPECT_DOUBLE_EQ(useful_training_flops(config.resolved(), 512, 0, 0) - topk,
                   6 * 2 * (segments * (logits + blend) - 512 * logits));
}

TEST(Flops, CountsTheProductsOfEachScorer) {
  const auto flops = [](const std::string& scorer) {
    ModelConfig config = with_experts(published(2, 64, 4), 8, "topk").resolved();
    config.router.scorer = scorer;
    return useful_training_flops(config, 10, 0, 0);
  };
  // 6 FLOPs a multiply-add, 10 tokens, 2 layers. The perceptron has width 64, and the cosine scorer
  // has dimension 8 / 2.
  EXPECT_EQ(flops("mlp") - flops("linear"), 6 * 10 * 2 * 64.0 * 64);
  EXPECT_EQ(flops("cosine") - flops("linear"), 6 * 10 * 2 * (4.0 * 64 + 8 * 4 - 8 * 64));
  EXPECT_EQ(flops("noisy-linear") - flops("linear"), 6 * 10 * 2 * 64.0 * 8);
  EXPECT_EQ(flops("hypernetwork"), flops("linear"));
}

/// d=4, 1 layer, 2 heads of 2, f=8, V=10.
ModelConfig xl_by_hand() {
  ModelConfig config{.vocab = 10, .d_model = 4, .layers = 1, .heads = 2, .d_ffn = 8};
  config.architecture = ModelKind::transformer_xl;
  return config;
}

TEST(Flops, TransformerXlsFlopsByHand) {
  // 3 tokens follow 2 remembered positions: 6 + 3·2 = 12 pairs.
  ModelConfig config = xl_by_hand();
  config.xl.memory = 2;
  // Per token: qkvo 4·16 = 64, FFN 2·4·8 = 64, head 40, together 168 multiply-adds. Attention: 3
  // products of width 4 for 12 pairs, 144. Remembered positions: keys and values take 2·16 for each
  // of 2 positions, and 16 for each of 5 distances, together 144 multiply-adds, without the input's
  // gradient.
  EXPECT_DOUBLE_EQ(nominal_training_flops(config.resolved(), 1, 3),
                   3 * (2 * 3 * 168 + 2 * 144) + 2 * 2 * 144);
}

TEST(Flops, ForwardFlopsByHand) {
  // 2 FLOPs for each multiply-add of tokens, pairs, memory and distances, as counted above.
  ModelConfig config = xl_by_hand();
  EXPECT_DOUBLE_EQ(nominal_forward_flops(config.resolved(), 1, 3, 2, 0),
                   2 * 3 * 168 + 2 * 144 + 2 * 144);
  // Two sequences project the five distances only once: 80 multiply-adds fewer than twice the
  // above.
  EXPECT_DOUBLE_EQ(nominal_forward_flops(config.resolved(), 2, 3, 2, 0),
                   2 * (2 * 3 * 168 + 288 + 288) - 160);
  // Four experts replace the feed-forward network. The router takes 16 multiply-adds, and each
  // active expert 64.
  config.moe.experts = 4;
  config.router.method = "topk";
  for (const double k : {1.0, 3.0, 4.0})
    EXPECT_DOUBLE_EQ(nominal_forward_flops(config.resolved(), 1, 3, 2, k),
                     2 * 3 * (104 + 16 + 64 * k) + 288 + 288);
}

TEST(Flops, ForwardFlopsByKAreThePublishedOnes) {
  // HyperRouter Table A3 counts the linear layers of one evaluation batch of 10 x 128 tokens with a
  // memory of 896: (3.4670 + 0.26844 k) e10. The table leaves out attention's products and the
  // head. It includes the queries of the memory, which the paper's code computes and nothing reads.
  // Penstock does not count these.
  const ModelConfig config = transformer_xl_small();
  const double pairs = 10 * (128 * 129 / 2 + 128 * 896.0);
  const double attention = 2.0 * 3 * 4 * 512 * pairs, head = 2.0 * 1280 * 256 * 204;
  const double queries_of_memory = 2.0 * 4 * 256 * 512 * 8960;
  for (const double k : {1, 2, 4, 8, 16})
    EXPECT_NEAR(nominal_forward_flops(config.resolved(), 10, 128, 896, k) - attention - head +
                    queries_of_memory,
                (3.4670 + 0.26844 * k) * 1e10, 1e6 * (1 + k))
        << k;
}

TEST(Flops, UsefulFlopsByHand) {
  // d=4, 1 layer, 2 heads of 2, f=8, V=10. 3 tokens in one sequence make 1+2+3 = 6 pairs.
  ModelConfig config =
      ModelConfig{.vocab = 10, .d_model = 4, .layers = 1, .heads = 2, .d_ffn = 8}.resolved();
  EXPECT_EQ(causal_pairs(1, 3), 6);
  // Per token: qkvo 4·16 = 64, FFN 3·4·8 = 96, head 40, together 200 multiply-adds or 400 FLOPs.
  // Attention: 2 products · 2 FLOPs · width 4 · 6 pairs = 96.  (3·400 + 96)·3 = 3888.
  EXPECT_DOUBLE_EQ(useful_training_flops(config, 3, 6, 0), 3888);
  config.moe.experts = 2;
  config.router.method = "topk";
  // The FFN counts by assignment: 5 assignments of 96 multiply-adds each. The router takes 4·2 = 8
  // a token. (3·2·(64+8+40) + 5·2·96 + 96)·3 = (672 + 960 + 96)·3 = 5184.
  EXPECT_DOUBLE_EQ(useful_training_flops(config, 3, 6, 5), 5184);
}

}  // namespace
}  // namespace penstock
