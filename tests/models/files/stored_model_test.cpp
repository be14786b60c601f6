// Models whose matrices stay in their file, against the same file read as f32 numbers.
#include "penstock/models/files/stored_model.h"

#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/infer/pass_reader.h"
#include "penstock/infer/session.h"
#include "penstock/models/files/open_model.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/precision.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/small_models.h"

namespace penstock {
namespace {

using testing::TempDirectory;

/// Logits of eight tokens, read one after another behind a prompt of four.
at::Tensor said(const std::shared_ptr<LanguageModel>& model) {
  const auto session = make_session(model, {.capacity = 16});
  std::vector<at::Tensor> out{session->begin(0, std::vector<TokenId>{5, 80, 33, 7})};
  for (TokenId token = 11; token < 19; ++token)
    out.push_back(session->next(std::vector<std::int64_t>{0}, std::vector<TokenId>{token})[0]);
  return torch::stack(out);
}

/// The logits after 60 tokens: read in one pass beside another sequence, and read one by one.
std::pair<at::Tensor, at::Tensor> after_many(const std::shared_ptr<LanguageModel>& model) {
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < 60; ++i) tokens.push_back((i * 37 + 5) % 80);
  const auto reader = make_pass_reader(model, {.sequences = 2, .kept = 0, .capacity = 64});
  const std::vector<TokenId> other{3, 1, 4};
  const PassPart parts[] = {
      {.slot = reader->begin(other, 64, {}, 0).value().slot, .tokens = other},
      {.slot = reader->begin(tokens, 64, {}, 0).value().slot, .tokens = tokens, .asks = true}};
  const auto session = make_session(model, {.capacity = 64});
  at::Tensor last = session->begin(0, std::span(tokens).first(1));
  for (std::size_t i = 1; i < tokens.size(); ++i)
    last = session->next(std::vector<std::int64_t>{0}, std::span(tokens).subspan(i, 1))[0];
  return {reader->read(parts, {}, {})[0], last};
}

at::Tensor losses(LanguageModel& model) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = testing::some_tokens();
  const at::Tensor hidden = model.forward({.tokens = tokens}, {}).hidden;
  return model.losses(hidden, tokens.view({-1}).roll(-1));
}

double mean_loss(LanguageModel& model) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = testing::some_tokens();
  const at::Tensor hidden = model.forward({.tokens = tokens}, {}).hidden;
  return model.loss(hidden, tokens.view({-1}).roll(-1)).item<double>();
}

/// Expects that the file gives the same results opened both ways, and the same bits for few tokens.
void expect_same(const std::string& path) {
  std::shared_ptr<const ModelSource> source = open_model_source(path);
  const auto numbers = load_model(*source);
  const auto stored = open_model(std::move(source));  // only `stored` keeps the file open
  ops::reset_dispatch_counts();
  EXPECT_TRUE(said(stored).equal(said(numbers))) << path;
  EXPECT_GT(ops::dispatch_counts().at("stored_linear/rows"), 0) << path;
  const auto [together, alone] = after_many(stored);
  EXPECT_TRUE(together.equal(alone)) << path;
  const at::Tensor expected = losses(*numbers);
  EXPECT_NEAR(mean_loss(*stored), expected.mean().item<double>(), 1e-5) << path;
  EXPECT_LT((losses(*stored) - expected).abs().max().item<double>(), 1e-4) << path;
  EXPECT_GT(ops::dispatch_counts().at("stored_linear/expand"), 0) << path;
}

std::vector<std::pair<const char*, ModelConfig>> configs() {
  ModelConfig tied = testing::small_dense();
  tied.tie_embeddings = true;
  tied.qkv_bias = true;
  return {{"dense", tied},
          {"moe", testing::small_moe()},
          {"deepseek", testing::small_deepseek()},
          {"qwen3", testing::small_qwen3()}};
}

TEST(StoredModel, OfADirectoryInEachTypeSaysWhatItsNumbersSay) {
  for (const auto& [name, config] : configs())
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const TempDirectory temp;
      const std::string model = testing::write_random_model(config, temp.path(name));
      auto tensors = load_tensors(model);
      for (auto& [key, tensor] : tensors)
        if (tensor.is_floating_point()) tensor = tensor.to(type);
      save_tensors(real_file_system(), model + "/model.safetensors", tensors);
      expect_same(model);
    }
}

/// One operator takes all matrices of experts. If products cannot read the type of some of these
/// matrices, none of them is read in place.
TEST(StoredModel, ExpertsOfWhichSomeMatricesHaveAnotherTypeAreNumbers) {
  for (const char* const other : {"down_proj", "up_proj"}) {
    const TempDirectory temp;
    const std::string model = testing::write_random_model(testing::small_moe(), temp.path("model"));
    auto tensors = load_tensors(model);
    for (auto& [key, tensor] : tensors)
      if (key.find(concat("experts.1.", other)) != std::string::npos)
        tensor = tensor.to(at::kDouble);
    save_tensors(real_file_system(), model + "/model.safetensors", tensors);
    expect_same(model);
  }
}

TEST(StoredModel, FindsWhatIsNotFinite) {
  const TempDirectory temp;
  const std::string path = testing::write_random_model(testing::small_dense(), temp.path("model"));
  auto tensors = load_tensors(path);
  check_finite(*open_model_source(path));
  tensors.at("model.layers.1.mlp.up_proj.weight")[3][5] = NAN;
  save_tensors(real_file_system(), path + "/model.safetensors", tensors);
  testing::expect_error([&] { check_finite(*open_model_source(path)); },
                        {"model.layers.1.mlp.up_proj.weight"});
}

/// With 8-bit activations, few tokens give nearly the same logits, and on a processor with bf16
/// products many tokens nearly the same losses. If not `codes`, no block's type has 8-bit products,
/// and both are equal.
void expect_near(const std::string& path, bool codes) {
  const std::shared_ptr<const ModelSource> source = open_model_source(path);
  const at::Tensor exact = said(open_model(source));
  const auto rounding = open_model(source, source->config(), ops::Activations::int8);
  const at::Tensor near = said(rounding);
  EXPECT_EQ(near.equal(exact), !codes) << path;
  // A token between two experts may go to the other one.
  EXPECT_LT((near - exact).norm().item<double>() / exact.norm().item<double>(), 0.2) << path;
  const at::Tensor of_numbers = losses(*open_model(source)), rounded = losses(*rounding);
  EXPECT_EQ(rounded.equal(of_numbers), !codes || !ops::processor_has_bf16()) << path;
  EXPECT_LT((rounded - of_numbers).norm().item<double>() / of_numbers.norm().item<double>(), 0.1)
      << path;
}

TEST(StoredModel, OfAGgufFileInEachTypeSaysWhatItsNumbersSay) {
  for (const ExportDtype dtype : {ExportDtype::kF32, ExportDtype::kF16, ExportDtype::kBF16,
                                  ExportDtype::kQ8_0, ExportDtype::kQ6_K, ExportDtype::kQ4_K}) {
    const TempDirectory temp;
    const std::string model = temp.path("model"), file = temp.path("m.gguf");
    ModelConfig config = testing::small_moe("after");
    config.d_model = 256;  // the numbers in a larger block
    config.d_ffn = 256;
    testing::write_random_model(config, model);
    export_model({.model = model,
                  .out = file,
                  .format = ExportFormat::kGguf,
                  .architecture = "mixtral",
                  .dtype = dtype,
                  .check_tokens = 0});
    expect_same(file);
    expect_near(file, dtype == ExportDtype::kQ6_K || dtype == ExportDtype::kQ4_K);
  }
}

TEST(StoredModel, HoldsNoNumbersOfWhatItsFileHolds) {
  const TempDirectory temp;
  const std::string path = testing::write_random_model(testing::small_moe(), temp.path("model"));
  const auto model = open_model(open_model_source(path));
  std::int64_t held = 0;
  for (const auto& item : model->named_parameters()) {
    const at::Tensor& parameter = item.value();
    held += static_cast<std::int64_t>(parameter.storage().nbytes());
    const bool in_place = item.key().find("norm") == std::string::npos &&
                          item.key().find("router") == std::string::npos &&
                          item.key().find("bias") == std::string::npos;
    EXPECT_EQ(parameter.isnan().any().item<bool>(), in_place) << item.key();
  }
  EXPECT_LT(held, 10'000);  // norms and routers of two layers
}

TEST(StoredModel, BlendedExpertsAreNumbers) {
  const TempDirectory temp;
  const std::string path = temp.path("model");
  ModelConfig config = testing::small_moe();
  config.router = {};
  config.router.method = "lory";
  config.router.parts["lory"].set("segment_length", 16);
  testing::write_random_model(config.resolved(), path);
  const auto source = std::shared_ptr<const ModelSource>(open_model_source(path));
  EXPECT_TRUE(losses(*open_model(source)).equal(losses(*load_model(*source))));
}

TEST(StoredModel, WhatIsCopiedMustBeFinite) {
  const TempDirectory temp;
  const std::string path = testing::write_random_model(testing::small_dense(), temp.path("model"));
  auto tensors = load_tensors(path);
  tensors.at("model.norm.weight")[3] = NAN;
  save_tensors(real_file_system(), path + "/model.safetensors", tensors);
  EXPECT_THROW(open_model(open_model_source(path)), Error);
}

}  // namespace
}  // namespace penstock
