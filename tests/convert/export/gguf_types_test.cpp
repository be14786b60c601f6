#include "penstock/convert/export/gguf_types.h"

#include <gtest/gtest.h>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Layers whose down projection has the type Q6_K.
std::vector<std::int64_t> finer_layers(std::int64_t layers) {
  ModelConfig config;
  config.layers = layers;
  const GgufTypes types(ExportDtype::kQ4_K, config);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string stem = "blk." + std::to_string(i) + ".";
    const ExportDtype down = types.of(stem + "ffn_down.weight", {256, 512});
    EXPECT_EQ(types.of(stem + "attn_v.weight", {256, 256}), down) << i;
    EXPECT_EQ(types.of(stem + "ffn_up.weight", {512, 256}), ExportDtype::kQ4_K) << i;
    EXPECT_EQ(types.of(stem + "attn_q.weight", {256, 256}), ExportDtype::kQ4_K) << i;
    if (down == ExportDtype::kQ6_K) out.push_back(i);
  }
  return out;
}

TEST(GgufTypes, OfQ4KSomeLayersAreFiner) {
  // Listed by hand after llama.cpp's rule: the first eighth, the last eighth, and every third layer
  // in between.
  EXPECT_EQ(finer_layers(32),
            (std::vector<std::int64_t>{0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31}));
  EXPECT_EQ(finer_layers(5), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(finer_layers(1), (std::vector<std::int64_t>{0}));
}

TEST(GgufTypes, TheHeadIsFinerWhoeverHoldsIt) {
  ModelConfig config;
  config.tie_embeddings = false;
  const GgufTypes own(ExportDtype::kQ4_K, config);
  EXPECT_EQ(own.of("output.weight", {1000, 256}), ExportDtype::kQ6_K);
  EXPECT_EQ(own.of("token_embd.weight", {1000, 256}), ExportDtype::kQ4_K);
  config.tie_embeddings = true;
  EXPECT_EQ(GgufTypes(ExportDtype::kQ4_K, config).of("token_embd.weight", {1000, 256}),
            ExportDtype::kQ6_K);
}

TEST(GgufTypes, RowsThatFillNoBlockAreCoarserBlocksOrHalves) {
  const ModelConfig config;
  for (const ExportDtype asked : {ExportDtype::kQ4_K, ExportDtype::kQ6_K}) {
    const GgufTypes types(asked, config);
    EXPECT_EQ(types.of("token_embd.weight", {10, 512}), asked);
    EXPECT_EQ(types.of("token_embd.weight", {10, 96}), ExportDtype::kQ8_0);
    EXPECT_EQ(types.of("token_embd.weight", {10, 44}), ExportDtype::kF16);
    EXPECT_EQ(types.of("output_norm.weight", {512}), ExportDtype::kF32);
    EXPECT_EQ(types.of("blk.0.ffn_gate_inp.weight", {4, 512}), ExportDtype::kF32);
  }
  EXPECT_THROW(GgufTypes(ExportDtype::kQ8_0, config).of("token_embd.weight", {10, 44}), Error);
}

TEST(GgufTypes, TheNoteNamesTheBlockThatRowsDoNotFill) {
  using enum ExportDtype;
  EXPECT_EQ(
      types_note(kQ4_K, {kQ4_K, kQ8_0, kF16, kF16, kF32}),
      "1 tensors are q4_k, 1 q8_0 (rows that are no multiple of 256), 2 f16 (rows that are no "
      "multiple of 32), 1 f32");
}

}  // namespace
}  // namespace penstock
