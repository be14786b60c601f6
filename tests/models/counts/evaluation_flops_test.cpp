// FLOPs of linear layers against FLOPs counted by hand.
#include "penstock/models/counts/evaluation_flops.h"

#include <gtest/gtest.h>

#include "tests/models/published_models.h"

namespace penstock {
namespace {

TEST(EvaluationFlops, AreThoseCountedByHand) {
  // Four layers: q, k and v of 10 x 1024 positions, 1024 distances, 1280 outputs, and the router.
  const double by_hand =
      2.0 * 4 *
      (10 * 1024 * 256.0 * 1536 + 1024 * 256.0 * 512 + 1280 * 512.0 * 256 + 1280 * 256.0 * 16);
  EvaluationWork work{.sequences = 10, .length = 128, .memory = 896, .queries_of_memory = true};
  const ModelConfig config = transformer_xl_small().resolved();
  EXPECT_EQ(linear_layer_flops(config, work), by_hand);
  EXPECT_EQ(by_hand, 34670116864.0);
  work.active_experts = 1;
  EXPECT_EQ(linear_layer_flops(config, work) - by_hand, 2.0 * 4 * 1280 * 2 * 256 * 512);
  // A decoder with 6 tokens: q and output of 16 x 16, k and v of 16 x 8, three matrices of 16 x 24.
  const ModelConfig decoder =
      ModelConfig{.vocab = 32, .d_model = 16, .layers = 2, .heads = 4, .kv_heads = 2, .d_ffn = 24}
          .resolved();
  EXPECT_EQ(linear_layer_flops(decoder, {.sequences = 2, .length = 3}),
            2.0 * 2 * 6 * (2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 24));
}

}  // namespace
}  // namespace penstock
