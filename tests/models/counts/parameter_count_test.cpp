// Published counts: ReMoE (arXiv:2412.14711) Table 1, and parameters derived by hand from its
// configurations.

#include "penstock/models/counts/parameter_count.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/models/counts/flops.h"
#include "penstock/models/decoder.h"
#include "penstock/models/transformer_xl.h"
#include "tests/models/published_models.h"

namespace penstock {
namespace {

TEST(ParameterCount, ReproducesThePublishedCounts) {
  const ModelConfig small = published(12, 768, 12), medium = published(24, 1024, 16),
                    large = published(24, 1536, 16);
  EXPECT_EQ(count_parameters(small.resolved()).total, 182471424);
  EXPECT_EQ(count_parameters(medium.resolved()).total, 469812224);
  EXPECT_EQ(count_parameters(large.resolved()).total, 978396672);
  for (const char* method : {"topk", "remoe"}) {
    EXPECT_EQ(count_parameters(with_experts(small, 8, method).resolved()).total, 777087744);
    EXPECT_EQ(count_parameters(with_experts(medium, 8, method).resolved()).total, 2583938048);
    EXPECT_EQ(count_parameters(with_experts(large, 8, method).resolved()).total, 5735032320);
  }
}

TEST(ParameterCount, CountsTrainedScorerParametersOnly) {
  const auto router = [](const std::string& method) {
    return count_parameters(with_experts(published(4, 256, 4), 16, method).resolved()).router;
  };
  EXPECT_EQ(router("hyperrouter"), 1024);
  EXPECT_EQ(router("smoe-dropout"), 0);
  EXPECT_EQ(router("smoe"), 16448);
}

TEST(ParameterCount, CountsWhatTheBuiltModelHas) {
  for (const char* method : {"dense", "topk", "remoe"}) {
    for (const bool tied : {false, true}) {
      ModelConfig config{.vocab = 50, .d_model = 16, .layers = 3, .heads = 4, .kv_heads = 2};
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
      EXPECT_EQ(count_parameters(config.resolved()).total, built) << method << tied;
    }
  }
}

TEST(ParameterCount, ReproducesTransformerXlsPublishedCounts) {
  // The counts of HyperRouter (EMNLP 2023), Table A4: 19,505,35x and 16,448.
  ModelConfig config = transformer_xl_small();
  const ParameterCounts counts = count_parameters(config.resolved());
  EXPECT_EQ(counts.by_part.backbone, 19505356);
  EXPECT_EQ(counts.by_part.router, 16448);
  EXPECT_EQ(counts.by_part.hypernetwork, 0);
  EXPECT_EQ(counts.total, 19505356 + 16448);
  EXPECT_EQ(counts.router, 16448);
  // A frozen router counts in the router's part, and not as trained.
  config.router.parts["linear"].set("frozen", true);
  EXPECT_EQ(count_parameters(config.resolved()).by_part.router, 16448);
  EXPECT_EQ(count_parameters(config.resolved()).router, 0);
  EXPECT_EQ(count_parameters(config.resolved()).frozen, 16448);
  // The dense model of the same width has one network of 8192, and 15 fewer biases of 256 per
  // layer.
  config = transformer_xl_small();
  config.d_ffn = 8192;
  config.router = {.method = "dense"};
  EXPECT_EQ(count_parameters(config.resolved()).total, 19505356 - 4 * 15 * 256);
}

TEST(ParameterCount, CountsWhatTheBuiltTransformerXlHas) {
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
      EXPECT_EQ(count_parameters(config.resolved()).total, built) << first << apart;
    }
}

TEST(ParameterCount, GranularityKeepsActiveSizeAndTotal) {
  ModelConfig plain = with_experts(published(12, 768, 12), 8, "topk"), fine = plain;
  fine.moe.granularity = 4;
  const std::int64_t routers = 12 * 768 * 8;
  EXPECT_EQ(count_parameters(fine.resolved()).total - count_parameters(plain.resolved()).total,
            3 * routers);
  EXPECT_EQ(count_parameters(fine.resolved()).active - count_parameters(plain.resolved()).active,
            3 * routers);
  EXPECT_DOUBLE_EQ(published_flops_per_sequence(fine.resolved(), 1024),
                   published_flops_per_sequence(plain.resolved(), 1024));
}

}  // namespace
}  // namespace penstock
