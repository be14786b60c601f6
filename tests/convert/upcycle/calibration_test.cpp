// Mean keys and the feed-forward layers' inputs, against a plain loop over tokens.
#include "penstock/convert/upcycle/calibration.h"

#include <gtest/gtest.h>

#include <cmath>

#include "penstock/convert/sample_windows.h"
#include "penstock/data/prepare/prepare.h"
#include "penstock/models/files/open_model.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/tiny_parent.h"

namespace penstock {
namespace {

using testing::difference;

at::Tensor windows(std::int64_t count, std::int64_t length) {
  return (torch::arange(count * length, at::kLong) * 31 % 251).view({count, length});
}

/// The first layer's mean keys over the windows, computed token by token from the file's tensors.
at::Tensor first_layer_keys(const ModelConfig& config, LanguageModel& model,
                            const at::Tensor& tokens, bool rotate, bool bias) {
  const auto tensors = file_tensors(model);
  const std::string stem = "model.layers.0.";
  const at::Tensor weight = tensors.at(stem + "self_attn.k_proj.weight").to(at::kDouble);
  at::Tensor sum = at::zeros({config.kv_heads, config.head_dim}, at::kDouble);
  for (std::int64_t n = 0; n < tokens.size(0); ++n)
    for (std::int64_t t = 0; t < tokens.size(1); ++t) {
      at::Tensor x = tensors.at("model.embed_tokens.weight")[tokens[n][t]].to(at::kDouble);
      x = x / (x.square().mean() + config.norm_eps).sqrt() *
          tensors.at(stem + "input_layernorm.weight").to(at::kDouble);
      at::Tensor key = weight.mv(x);
      if (bias) key = key + tensors.at(stem + "self_attn.k_proj.bias").to(at::kDouble);
      key = key.view({config.kv_heads, config.head_dim}).contiguous();
      if (rotate) {
        const std::int64_t half = config.head_dim / 2;
        for (std::int64_t i = 0; i < half; ++i) {
          const double angle = static_cast<double>(t) *
                               std::pow(config.rope_base, -2.0 * static_cast<double>(i) /
                                                              static_cast<double>(config.head_dim));
          const std::int64_t a = config.rope_adjacent ? 2 * i : i,
                             b = config.rope_adjacent ? 2 * i + 1 : i + half;
          const at::Tensor u = key.select(1, a).clone(), v = key.select(1, b).clone();
          key.select(1, a).copy_(u * std::cos(angle) - v * std::sin(angle));
          key.select(1, b).copy_(u * std::sin(angle) + v * std::cos(angle));
        }
      }
      sum += key;
    }
  return (sum / static_cast<double>(tokens.numel()))
      .repeat_interleave(config.heads / config.kv_heads, 0);
}

TEST(Calibration, MeanKeysAreMeansOverTokens) {
  for (const bool adjacent : {false, true})
    for (const bool rotate : {false, true})
      for (const bool bias : {false, true}) {
        ModelConfig config = testing::tiny_config(4);
        config.rope_adjacent = adjacent;
        const testing::TempDirectory temp;
        testing::write_parent(temp.path().string(), config);
        const auto model = load_model(temp.path().string());
        const at::Tensor tokens = windows(3, 7);
        const auto keys = mean_keys(*open_model_source(temp.path().string()), tokens,
                                    {.after_rope = rotate, .bias = bias});
        ASSERT_EQ(keys.size(), 2U);
        EXPECT_EQ(keys[1].sizes(), (std::vector<std::int64_t>{8, 4}));
        const torch::NoGradGuard no_grad;
        EXPECT_LT(difference(keys[0].to(at::kDouble),
                             first_layer_keys(config, *model, tokens, rotate, bias)),
                  1e-6);
      }
}

/// Each shared key head is repeated for its neighbouring query heads.
TEST(Calibration, KeyHeadsAreRepeated) {
  const testing::TempDirectory temp;
  testing::write_parent(temp.path().string(), testing::tiny_config(2));
  const auto source = open_model_source(temp.path().string());
  const auto keys = mean_keys(*source, windows(10, 4), {});  // more rows than one pass takes
  for (const at::Tensor& layer : keys) {
    EXPECT_TRUE(layer[0].equal(layer[3]));
    EXPECT_FALSE(layer[3].equal(layer[4]));
    EXPECT_TRUE(layer[4].equal(layer[7]));
  }
}

/// The last layer's recorded inputs equal its normed residual stream.
TEST(Calibration, FeedForwardInputsAreWhatTheLayersSee) {
  const testing::TempDirectory temp;
  testing::write_parent(temp.path().string(), testing::tiny_config());
  const auto source = open_model_source(temp.path().string());
  const auto model = load_model(temp.path().string());
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = windows(2, 6);
  const auto inputs = testing::feed_forward_inputs(*source, tokens);
  ASSERT_EQ(inputs.size(), 2U);
  // With the last down projection at 0, the last layer's output is the input of the norm before its
  // feed-forward.
  auto tensors = file_tensors(*model);
  tensors.at("model.layers.1.mlp.down_proj.weight").zero_();
  at::Tensor before;  // [2, 6, d], the input of the norm before the feed-forward
  model->forward({.tokens = tokens}, {}, {}, [&](std::int64_t layer, const at::Tensor& hidden) {
    if (layer == 1) before = hidden;
  });
  const at::Tensor x = before.view({12, 32}).to(at::kDouble);
  const at::Tensor normed =
      x / (x.square().mean(1, true) + 1e-6).sqrt() *
      tensors.at("model.layers.1.post_attention_layernorm.weight").to(at::kDouble);
  EXPECT_LT(difference(inputs[1].to(at::kDouble), normed), 1e-5);
}

/// Only the first 16 bytes per token of a long file are read: an "a" and seven and a half "é".
TEST(SampleWindows, DoNotCutACharacter) {
  const testing::TempDirectory temp;
  testing::write_parent(temp.path("model"), testing::tiny_config());
  const std::string text = temp.path("text");
  std::string letters = "a";
  for (int i = 0; i < 20; ++i) letters += "\xc3\xa9";
  write_file_atomically(real_file_system(), text, std::string_view(letters));
  const auto source = open_model_source(temp.path("model"));
  const at::Tensor ids = sample_windows(text, *source, {.tokens = 1, .length = 100});
  EXPECT_EQ(ids.sizes(), (std::vector<std::int64_t>{1, 15}));
}

TEST(SampleWindows, AreSpreadEvenly) {
  const testing::TempDirectory temp;
  testing::write_parent(temp.path("model"), testing::tiny_config());
  const std::string text = temp.path("text");
  std::string letters;
  for (int i = 0; i < 100; ++i) letters += static_cast<char>('A' + i % 26);
  write_file_atomically(real_file_system(), text, std::string_view(letters));
  const auto source = open_model_source(temp.path("model"));
  const auto ids = source->tokenizer()->encode(letters);
  const at::Tensor some = sample_windows(text, *source, {.tokens = 30, .length = 10});
  ASSERT_EQ(some.sizes(), (std::vector<std::int64_t>{3, 10}));
  for (const auto& [row, begin] : {std::pair<int, int>{0, 0}, {1, 45}, {2, 90}})
    for (int t = 0; t < 10; ++t)
      EXPECT_EQ(some[row][t].item<std::int64_t>(), ids[static_cast<std::size_t>(begin + t)]);
  EXPECT_EQ(sample_windows(text, *source, {}).sizes(), (std::vector<std::int64_t>{3, 32}));
  EXPECT_THROW(sample_windows(temp.path("none"), *source, {}), Error);
}

/// Ids of another tokenizer can lie within the model's vocabulary and mean other text.
TEST(SampleWindows, RefuseACorpusOfAnotherTokenizer) {
  const testing::TempDirectory temp;
  const std::string model = temp.path("model"), text = temp.path("text"),
                    corpus = temp.path("corpus");
  testing::write_parent(model, testing::tiny_config());
  write_file_atomically(real_file_system(), text, std::string_view("the weir and the gate\n"));
  PrepareOptions options{.inputs = {{.path = text}}, .split = "1,0,0", .out = corpus};
  prepare_corpus(options);
  const auto source = open_model_source(model);
  EXPECT_GT(sample_windows(corpus, *source, {}).numel(), 0);
  options.tokenizer = "byte-vocabulary";
  prepare_corpus(options);
  EXPECT_THROW(sample_windows(corpus, *source, {}), Error);
  // Without it the ids' tokenizer cannot be checked.
  std::filesystem::remove(model + "/tokenizer.json");
  EXPECT_GT(sample_windows(corpus, *open_model_source(model), {}).numel(), 0);
}

}  // namespace
}  // namespace penstock
