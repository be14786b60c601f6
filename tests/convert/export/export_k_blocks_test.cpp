// GGUF files of Q4_K and Q6_K, opened again.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "penstock/convert/export/export_model.h"
#include "penstock/io/gguf.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/small_models.h"

namespace penstock {
namespace {

using testing::TempDirectory;

/// Largest difference of logits between the model and the file, over the largest logit.
double difference_from_model(const TempDirectory& temp) {
  const at::Tensor tokens = testing::some_tokens();
  const at::Tensor ours = testing::logits_of((temp.path() / "model").string(), tokens);
  const at::Tensor theirs = testing::logits_of((temp.path() / "m.gguf").string(), tokens);
  return ((ours - theirs).abs().max() / ours.abs().max()).item<double>();
}

/// Exports a random model with rows of 256 numbers, all experts on and attention that is not a
/// choice of one token, so that logits move little where weights do.
Certificate exported_wide(const TempDirectory& temp, std::int64_t width, ExportDtype dtype) {
  ModelConfig config = testing::small_moe("after");
  config.d_model = 256;
  config.d_ffn = width;
  config.router.k = static_cast<double>(config.moe.experts);
  const std::string model = (temp.path() / "model").string();
  testing::write_random_model(config, model);
  auto tensors = load_tensors(model);
  for (auto& [name, tensor] : tensors)
    if (tensor.dim() == 2) tensor.mul_(0.25);
  save_tensors(real_file_system(), model + "/model.safetensors", tensors);
  return export_model({.model = model,
                       .out = (temp.path() / "m.gguf").string(),
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
    const std::string model = (temp.path() / "model").string();
    testing::write_random_model(testing::small_moe("after"), model);  // rows of 32
    const Certificate certificate = export_model({.model = model,
                                                  .out = (temp.path() / "m.gguf").string(),
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

TEST(ExportKBlocks, AFileOfQ6KIsNearer) {
  const TempDirectory temp;
  EXPECT_TRUE(exported_wide(temp, 256, ExportDtype::kQ6_K).rounded);
  EXPECT_LT(difference_from_model(temp), 0.08);
  EXPECT_EQ(GgufFile(temp.path() / "m.gguf").find("blk.0.attn_v.weight")->type, GgmlType::kQ6_K);
}

}  // namespace
}  // namespace penstock
