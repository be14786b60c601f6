// GGUF files of Q4_K and Q6_K: export them and read them again.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "penstock/convert/export/export_model.h"
#include "penstock/convert/export/input_squares.h"
#include "penstock/io/gguf.h"
#include "penstock/models/files/open_model.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/export/sample_text.h"
#include "tests/convert/small_models.h"

namespace penstock {
namespace {

using testing::TempDirectory;
using testing::text_file;

double difference_from_model(const TempDirectory& temp) {
  return testing::relative_difference(temp.path("model"), temp.path("m.gguf"));
}

/// Writes a random model in which small weight errors move the logits little: rows of 256 numbers,
/// all experts active, and small weights, so that attention does not select a single token.
/// @param gain  multiplies every fourth entry of the norms' weights
std::string write_wide(const TempDirectory& temp, std::int64_t width, double gain = 1) {
  ModelConfig config = testing::small_moe("after");
  config.d_model = 256;
  config.d_ffn = width;
  config.router.k = static_cast<double>(config.moe.experts);
  const std::string model = testing::write_random_model(config, temp.path("model"));
  auto tensors = load_tensors(model);
  for (auto& [name, tensor] : tensors)
    if (tensor.dim() == 2)
      tensor.mul_(0.25);
    else if (name.ends_with("norm.weight"))
      tensor.slice(0, 0, tensor.size(0), 4).mul_(gain);
  save_tensors(real_file_system(), model + "/model.safetensors", tensors);
  return model;
}

Certificate exported_wide(const TempDirectory& temp, std::int64_t width, ExportDtype dtype) {
  return export_model({.model = write_wide(temp, width),
                       .out = temp.path("m.gguf"),
                       .format = ExportFormat::kGguf,
                       .architecture = "mixtral",
                       .dtype = dtype,
                       .check_tokens = 64});
}

TEST(ExportKBlocks, FilesMixTypesAndSaySo) {
  for (const std::int64_t width : {256, 96}) {
    const TempDirectory temp;
    const Certificate certificate = exported_wide(temp, width, ExportDtype::kQ4_K);
    EXPECT_TRUE(certificate.rounded);
    EXPECT_EQ(certificate.dtype, ExportDtype::kQ4_K);
    EXPECT_FALSE(certificate.asked_dtype);
    const double off = difference_from_model(temp);
    EXPECT_GT(off, 1e-3);
    EXPECT_LT(off, 0.3) << width;
    const GgufFile file(temp.path() / "m.gguf");
    const auto type = [&](const char* name) { return file.find(name)->type; };
    EXPECT_EQ(type("token_embd.weight"), GgmlType::kQ4_K);
    EXPECT_EQ(type("output.weight"), GgmlType::kQ6_K);
    EXPECT_EQ(type("blk.0.ffn_up_exps.weight"), GgmlType::kQ4_K);
    EXPECT_EQ(type("blk.0.attn_v.weight"), GgmlType::kQ4_K);
    EXPECT_EQ(type("blk.1.attn_v.weight"), GgmlType::kQ6_K);
    EXPECT_EQ(type("blk.1.ffn_down_exps.weight"), width == 256 ? GgmlType::kQ6_K : GgmlType::kQ8_0);
    EXPECT_EQ(type("blk.0.ffn_gate_inp.weight"), GgmlType::kF32);
    EXPECT_EQ(file.value("general.file_type")->as_integer(), 15);
    ASSERT_FALSE(certificate.notes.empty());
    EXPECT_EQ(certificate.notes.back(),
              width == 256 ? "13 tensors are q4_k, 3 q6_k, 7 f32"
                           : "12 tensors are q4_k, 2 q6_k, 2 q8_0 (rows that are no multiple of "
                             "256), 7 f32");
  }
}

TEST(ExportKBlocks, AFileWithoutAnySuchBlockIsNotCalledSo) {
  for (const ExportDtype asked : {ExportDtype::kQ4_K, ExportDtype::kQ6_K}) {
    const TempDirectory temp;
    const std::string model = temp.path("model");
    testing::write_random_model(testing::small_moe("after"), model);  // rows of 32
    const Certificate certificate = export_model({.model = model,
                                                  .out = temp.path("m.gguf"),
                                                  .format = ExportFormat::kGguf,
                                                  .dtype = asked,
                                                  .check_tokens = 0});
    EXPECT_EQ(certificate.dtype, ExportDtype::kQ8_0);
    EXPECT_EQ(certificate.asked_dtype, asked);
    EXPECT_EQ(to_json(certificate)["asked_dtype"], word(asked));
    const GgufFile file(temp.path() / "m.gguf");
    EXPECT_EQ(file.value("general.file_type")->as_integer(), 7);  // Q8_0
  }
}

bool has_note(const Certificate& certificate, const std::string& part) {
  return std::ranges::any_of(certificate.notes, [&](const std::string& note) {
    return note.find(part) != std::string::npos;
  });
}

/// If the text makes few columns large, the importance matrix moves errors to the other columns:
/// Σ_j mean x_j² e_j² of the file falls in every kind of matrix.
TEST(ExportKBlocks, AnImportanceMatrixMovesErrors) {
  const TempDirectory temp;
  ExportOptions options{.model = write_wide(temp, 256, 8),
                        .out = temp.path("plain.gguf"),
                        .format = ExportFormat::kGguf,
                        .architecture = "mixtral",
                        .dtype = ExportDtype::kQ4_K,
                        .sample = text_file(temp),
                        .check_tokens = 64};
  export_model(options);
  options.out = temp.path("weighted.gguf");
  options.importance_tokens = 1024;
  const Certificate certificate = export_model(options);
  EXPECT_EQ(certificate.agreement.tokens, 64);
  EXPECT_TRUE(has_note(certificate,
                       "1024 tokens of " + options.sample + "; the file is measured on others"));
  const auto model = load_model(options.model);
  const auto squares = input_squares(*model, testing::text_tokens(1024).view({16, 64}));
  const auto ours = open_model_source(options.model);
  const auto error_of = [&](const char* file, const std::string& name) {
    const at::Tensor off =
        open_model_source(temp.path(file))->tensor(name) - ours->tensor(name).to(at::kFloat);
    const at::Tensor by_column = off.to(at::kDouble).square().sum(0);
    return by_column.dot(at::tensor(squares.at(name).sums, at::kDouble)).item<double>();
  };
  const std::string layer = "model.layers.0.";
  for (const std::string& name :
       {layer + "self_attn.v_proj.weight", layer + "mlp.experts.2.up_proj.weight",
        std::string("lm_head.weight")})
    EXPECT_LT(error_of("weighted.gguf", name), 0.8 * error_of("plain.gguf", name)) << name;
  for (const std::string& name :
       {layer + "self_attn.o_proj.weight", layer + "mlp.experts.2.down_proj.weight"})
    EXPECT_LT(error_of("weighted.gguf", name), error_of("plain.gguf", name)) << name;
  // Embeddings are looked up and not multiplied, so they have no input statistics.
  const auto bytes = [&](const char* file) {
    return open_model_source(temp.path(file))->tensor("model.embed_tokens.weight");
  };
  EXPECT_TRUE(bytes("weighted.gguf").equal(bytes("plain.gguf")));
}

TEST(ExportKBlocks, AnImportanceMatrixAsksForATextAndForSomethingToFit) {
  const TempDirectory temp;
  ExportOptions options{.model = write_wide(temp, 256),
                        .out = temp.path("m.gguf"),
                        .format = ExportFormat::kGguf,
                        .dtype = ExportDtype::kQ4_K,
                        .importance_tokens = 64};
  const auto refused = [&] {
    return testing::error_or("exported", [&] { export_model(options); });
  };
  testing::expect_says(refused(), {"options.importance_tokens: give the text"});
  options.sample = text_file(temp);
  options.dtype = ExportDtype::kQ8_0;
  testing::expect_says(refused(), {"options.importance_tokens: only the scales"});
  options = {.model = options.model,
             .out = temp.path("hf"),
             .sample = options.sample,
             .importance_tokens = 64};
  testing::expect_says(refused(), {"options.importance_tokens: only the scales"});
}

/// Experts that no token of the text reaches are fitted as without a text. So are tied embeddings
/// when the file stores the head as a tensor of its own.
TEST(ExportKBlocks, WhatIsNotMultipliedIsFittedPlainly) {
  const TempDirectory temp;
  ModelConfig config = testing::small_qwen3();
  config.tie_embeddings = true;
  config.d_model = 256;
  config.d_ffn = 256;
  const std::string model = testing::write_random_model(config, temp.path("model"));
  auto tensors = load_tensors(model);
  for (auto& [name, tensor] : tensors)  // inputs are positive; experts 2 and 3 get no token
    if (name == "model.embed_tokens.weight")
      tensor.abs_().add_(10);
    else if (name.ends_with("norm.weight"))
      tensor.abs_();
    else if (name.ends_with("mlp.gate.weight"))
      tensor.abs_().slice(0, 2).neg_();
  save_tensors(real_file_system(), model + "/model.safetensors", tensors);
  ExportOptions options{.model = model,
                        .out = temp.path("plain.gguf"),
                        .format = ExportFormat::kGguf,
                        .architecture = "qwen3moe",
                        .dtype = ExportDtype::kQ4_K,
                        .sample = text_file(temp),
                        .check_tokens = 0};
  export_model(options);
  options.out = temp.path("weighted.gguf");
  options.importance_tokens = 512;
  const Certificate certificate = export_model(options);
  const auto plain = open_model_source(temp.path("plain.gguf")),
             weighted = open_model_source(options.out);
  const auto same = [&](const std::string& name) {
    return plain->tensor(name).equal(weighted->tensor(name));
  };
  const std::string experts = "model.layers.0.mlp.experts.";
  EXPECT_FALSE(same(experts + "0.up_proj.weight"));
  EXPECT_FALSE(same(experts + "1.down_proj.weight"));
  EXPECT_TRUE(same(experts + "2.up_proj.weight"));
  EXPECT_TRUE(same(experts + "3.down_proj.weight"));
  EXPECT_FALSE(same("lm_head.weight"));
  EXPECT_TRUE(same("model.embed_tokens.weight"));
  EXPECT_TRUE(has_note(certificate, "matrices met too few of these tokens"));
}

TEST(ExportKBlocks, AFileOfQ6KIsNearer) {
  const TempDirectory temp;
  EXPECT_TRUE(exported_wide(temp, 256, ExportDtype::kQ6_K).rounded);
  EXPECT_LT(difference_from_model(temp), 0.08);
  EXPECT_EQ(GgufFile(temp.path() / "m.gguf").find("blk.0.attn_v.weight")->type, GgmlType::kQ6_K);
}

}  // namespace
}  // namespace penstock
