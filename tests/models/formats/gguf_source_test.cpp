// What a GGUF file may not hold: keys that contradict its tensors or each other, and scaled
// positions. What quantised tensors are read as.
#include "penstock/models/formats/gguf_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "penstock/convert/export/export_model.h"
#include "penstock/io/gguf_writer.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/files/stored_model.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/small_models.h"
#include "tests/models/formats/rewritten_gguf.h"

namespace penstock {
namespace {

using testing::TempDirectory;

/// Writes a random model as a GGUF file. @return its path
std::string moe_file(const TempDirectory& temp) {
  const std::string model = temp.path("model");
  const std::string out = temp.path("m.gguf");
  testing::write_random_model(testing::small_moe(), model);
  export_model({.model = model, .out = out, .format = ExportFormat::kGguf, .check_tokens = 64});
  return out;
}

TEST(GgufSource, RefusesKeysThatTensorsDoNotBearOut) {
  const TempDirectory temp;
  const std::string path = moe_file(temp);
  const std::string file = real_file_system().read(path);
  const auto with = [&](const std::string& key, std::uint32_t value) {
    std::string changed = file;
    const auto at = changed.find(key) + key.size() + 4;  // after the type
    std::memcpy(changed.data() + at, &value, sizeof value);
    write_file_atomically(real_file_system(), path, changed);
    return testing::error_or("", [&] { open_model_source(path); });
  };
  for (const char* const key :
       {"qwen2moe.block_count", "qwen2moe.embedding_length", "qwen2moe.attention.head_count",
        "qwen2moe.attention.key_length", "qwen2moe.expert_count", "qwen2moe.expert_used_count",
        "qwen2moe.expert_feed_forward_length", "qwen2moe.expert_shared_feed_forward_length",
        "qwen2moe.context_length"})
    for (const std::uint32_t value : {0u, 5u, 9999u, 0xffffffffu}) {
      if (std::string(key).ends_with("context_length") && value != 0 && value != 0xffffffffu)
        continue;
      const std::string error = with(key, value);
      EXPECT_NE(error, "") << key << " = " << value;
      if (value == 0 || value == 0xffffffff) {
        EXPECT_NE(error.find(concat("'", key, "'")), std::string::npos) << error;
      }
    }
}

/// small_moe() has 4 heads. Three heads of keys agree with the tensors' rank, and not with 4 heads.
TEST(GgufSource, KeysThatDoNotFitTogetherAreNamedAsInTheFile) {
  const TempDirectory temp;
  const std::string path = moe_file(temp);
  std::string file = real_file_system().read(path);
  const std::string key = "qwen2moe.attention.head_count_kv";
  const std::uint32_t value = 3;
  std::memcpy(file.data() + file.find(key) + key.size() + 4, &value, sizeof value);
  write_file_atomically(real_file_system(), path, file);
  const std::string error = testing::error_or("", [&] { open_model_source(path); });
  testing::expect_says(error, {"m.gguf: ", "qwen2moe.attention.head_count = 4",
                               "qwen2moe.attention.head_count_kv = 3"});
  EXPECT_EQ(error.find("model.heads"), std::string::npos) << error;
}

TEST(GgufSource, SaysTheFilesNamesOfTensors) {
  const TempDirectory temp;
  const auto source = open_model_source(moe_file(temp));
  EXPECT_EQ(source->stored_name("model.layers.1.self_attn.q_proj.weight"), "blk.1.attn_q.weight");
  EXPECT_EQ(source->stored_name("model.layers.0.mlp.experts.1.up_proj.weight"),
            "blk.0.ffn_up_exps.weight");
}

/// Writes a copy of the file in which the tensors whose names end in `ending` have type `type` and
/// random bytes, except for scales of 1/256.  shape: of these tensors; empty: as in the file
void write_quantised(const GgufFile& file, const std::string& path, const std::string& ending,
                     GgmlType type, const std::vector<std::size_t>& scales,
                     const std::vector<std::int64_t>& shape = {}) {
  std::vector<GgufPlanned> planned;
  for (const GgufTensor& tensor : file.tensors()) {
    GgufPlanned& copy = planned.emplace_back(GgufPlanned{tensor.name, tensor.type, tensor.shape});
    if (!tensor.name.ends_with(ending)) continue;
    copy.type = type;
    if (!shape.empty()) copy.shape = shape;
  }
  GgufWriter writer(real_file_system(), path, file.metadata(), planned);
  std::uint32_t draw = 1;
  for (const GgufPlanned& tensor : planned) {
    const std::span<const std::byte> kept = file.find(tensor.name)->data;
    std::vector<std::byte> bytes(kept.begin(), kept.end());
    if (tensor.type == type) {
      bytes.resize(gguf_bytes(tensor));
      for (std::byte& byte : bytes) byte = std::byte((draw = draw * 1664525 + 1013904223) >> 24);
      for (std::size_t block = 0; block < bytes.size(); block += ggml_block(type).bytes)
        for (const std::size_t at : scales) {
          bytes[block + at] = std::byte(0);
          bytes[block + at + 1] = std::byte(0x1c);
        }
    }
    writer.write(tensor.name, bytes);
  }
  writer.commit();
}

TEST(GgufSource, AnExpertOfAQuantisedTensorIsItsBlocksNumbers) {
  const TempDirectory temp;
  const std::string model = temp.path("model"), path = temp.path("q");
  ModelConfig config = testing::small_moe();
  config.d_ffn = 256;  // the length of the rows of ffn_down_exps
  testing::write_random_model(config, model);
  export_model(
      {.model = model, .out = path + ".gguf", .format = ExportFormat::kGguf, .check_tokens = 0});
  const GgufFile plain(path + ".gguf");
  for (const auto& [type, scales] :
       std::map<GgmlType, std::vector<std::size_t>>{{GgmlType::kQ4_0, {0}},
                                                    {GgmlType::kQ5_0, {0}},
                                                    {GgmlType::kQ4_K, {0, 2}},
                                                    {GgmlType::kQ5_K, {0, 2}},
                                                    {GgmlType::kQ6_K, {208}}}) {
    const std::string name(ggml_type_name(type));
    write_quantised(plain, path + name + ".gguf", "ffn_down_exps.weight", type, scales);
    const GgufFile file(path + name + ".gguf");
    const std::span<const std::byte> blocks = file.find("blk.1.ffn_down_exps.weight")->data;
    const at::Tensor all = at::empty({4, 64, 256});
    dequantise(type, blocks, {all.data_ptr<float>(), 4 * 64 * 256});
    const GgufSource source(path + name + ".gguf");
    for (std::int64_t expert = 0; expert < 4; ++expert)
      EXPECT_TRUE(source.tensor(concat("model.layers.1.mlp.experts.", expert, ".down_proj.weight"))
                      .equal(all[expert]))
          << name << ' ' << expert;
    EXPECT_GT(all.std().item<double>(), 0) << name;
  }
}

/// ffn_down has 64 rows of one number. A file may lack the axis of size 1, and then a block of 32
/// numbers is a part of 32 rows.
TEST(GgufSource, BlocksThatAreNoRowsAreReadAsNumbers) {
  const TempDirectory temp;
  const std::string model = temp.path("model"), path = temp.path("m");
  ModelConfig config = testing::small_dense();
  config.d_ffn = 1;
  testing::write_random_model(config, model);
  export_model(
      {.model = model, .out = path + ".gguf", .format = ExportFormat::kGguf, .check_tokens = 0});
  const std::string flat = path + "-flat.gguf";
  write_quantised(GgufFile(path + ".gguf"), flat, "ffn_down.weight", GgmlType::kQ8_0, {0}, {64});
  const GgufFile file(flat);
  const at::Tensor numbers = at::empty({64, 1});
  dequantise(GgmlType::kQ8_0, file.find("blk.1.ffn_down.weight")->data,
             {numbers.data_ptr<float>(), 64});
  const GgufSource source(flat);
  EXPECT_TRUE(source.tensor("model.layers.1.mlp.down_proj.weight").equal(numbers));
  EXPECT_FALSE(source.stored("model.layers.1.mlp.down_proj.weight").has_value());
  EXPECT_TRUE(source.stored("model.layers.1.mlp.up_proj.weight").has_value());
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = testing::some_tokens();
  const auto opened = open_model(source);
  const at::Tensor logits = opened->logits(opened->forward({.tokens = tokens}, {}).hidden);
  EXPECT_LT((logits - testing::logits_of(flat, tokens)).abs().max().item<double>(), 1e-4);
}

/// The error of opening the file with one more key; "" if it opens.
std::string refusal_with(const TempDirectory& temp, const GgufFile& file, const std::string& key,
                         const GgufValue& value) {
  const std::string path = temp.path("changed.gguf");
  GgufMetadata metadata = file.metadata();
  metadata.emplace_back(key, value);
  testing::rewrite_gguf(file, metadata, path);
  return testing::error_or("", [&] { open_model_source(path); });
}

TEST(GgufSource, OneOfSeveralFilesSaysSo) {
  const TempDirectory temp;
  const GgufFile file(moe_file(temp));
  const std::string refusal = refusal_with(temp, file, "split.count", GgufValue::u32(3));
  testing::expect_says(refusal, {"changed.gguf: is one of the 3 files", "llama-gguf-split"});
  EXPECT_EQ(refusal_with(temp, file, "split.count", GgufValue::u32(1)), "");
}

TEST(GgufSource, RefusesScaledPositionsWithoutAType) {
  const TempDirectory temp;
  const GgufFile file(moe_file(temp));
  const auto opens = [&](const char* key, float factor) {
    const std::string refusal = refusal_with(temp, file, key, GgufValue::f32(factor));
    if (!refusal.empty()) testing::expect_says(refusal, {key});
    return refusal.empty();
  };
  for (const char* const key : {"qwen2moe.rope.scaling.factor", "qwen2moe.rope.scale_linear",
                                "qwen2moe.rope.scaling.attn_factor"}) {
    EXPECT_FALSE(opens(key, 4)) << key;
    EXPECT_TRUE(opens(key, 1)) << key;
  }
}

/// Files of Llama 3.1 and later say with a tensor alone that their positions are scaled.
TEST(GgufSource, RefusesATensorThatScalesPositions) {
  const TempDirectory temp;
  const GgufFile file(moe_file(temp));
  std::vector<GgufPlanned> planned = {{"rope_freqs.weight", GgmlType::kF32, {8}}};
  for (const GgufTensor& tensor : file.tensors())
    planned.push_back({tensor.name, tensor.type, tensor.shape});
  const std::string path = temp.path("scaled.gguf");
  GgufWriter writer(real_file_system(), path, file.metadata(), planned);
  const std::vector<float> factors(8, 1.0f);
  writer.write("rope_freqs.weight", std::as_bytes(std::span(factors)));
  for (const GgufTensor& tensor : file.tensors()) writer.write(tensor.name, tensor.data);
  writer.commit();
  testing::expect_says(testing::error_or("", [&] { open_model_source(path); }),
                       {"scaled.gguf: ", "'rope_freqs.weight'", "scales positions"});
}

}  // namespace
}  // namespace penstock
