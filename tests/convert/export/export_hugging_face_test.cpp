#include "penstock/convert/export/export_hugging_face.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "penstock/convert/export/export_choice.h"
#include "penstock/convert/export/export_hugging_face_config.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/models/files/open_model.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/small_models.h"

namespace penstock {
namespace {

using testing::logits_of;
using testing::run_on_logits;
using testing::small_deepseek;
using testing::small_dense;
using testing::small_moe;
using testing::small_qwen3;
using testing::some_tokens;
using testing::TempDirectory;
using testing::write_random_model;

struct HuggingFaceCase {
  std::string architecture;
  ModelConfig config;
};

std::vector<HuggingFaceCase> hugging_face_cases() {
  ModelConfig biased = small_dense(), olmoe = small_moe(), tied = small_moe("after"),
              shared = small_moe(), adjacent = small_dense(), wide = small_dense(),
              granular = small_moe(), unbiased = small_moe(), ungated = small_moe();
  biased.qkv_bias = true;
  olmoe.qk_norm = true;
  olmoe.clip_qkv = 1.5;
  tied.tie_embeddings = true;
  shared.moe.shared_width = 40;
  shared.moe.shared_gate = true;
  shared.qkv_bias = true;
  ungated.moe.shared_width = 40;
  adjacent.rope_adjacent = true;
  wide.head_dim = 24;
  granular.moe.granularity = 3;
  unbiased.router.parts["topk"].set("renormalise", true);
  ModelConfig probabilities = small_qwen3(), some = small_qwen3(), freq = small_deepseek(),
              bare = small_moe(), listed = small_deepseek();
  probabilities.router.parts["topk"].set("renormalise", false);
  some.layers = 4;
  some.moe.dense_layers = 1;
  some.moe.every = 2;  // layers 1 and 3
  some.moe.dense_width = 128;
  freq.layers = 5;
  freq.moe.dense_layers = freq.moe.every = 2;  // layers 2 and 4
  listed.moe.shared_width = 0;
  return {{"qwen3moe", small_qwen3()},
          {"qwen3moe", probabilities},
          {"qwen3moe", some},
          {"deepseek", small_deepseek()},
          {"deepseek", freq},
          {"deepseek", bare},
          {"qwen2moe", listed},
          {"llama", small_dense()},
          {"llama", adjacent},
          {"llama", wide},
          {"qwen2", biased},
          {"mixtral", tied},
          {"qwen2moe", shared},
          {"qwen2moe", granular},
          {"olmoe", olmoe},
          {"qwen2moe", unbiased},
          {"qwen2moe", ungated}};
}

std::string random_export(const TempDirectory& temp, const HuggingFaceCase& item,
                          double shard_size = 5) {
  const std::string model = write_random_model(item.config, temp.path("model")),
                    out = temp.path("hf");
  export_model({.model = model,
                .out = out,
                .architecture = item.architecture,
                .check_tokens = 48,
                .shard_size = shard_size});
  return out;
}

/// Runs hugging_face_logits.py on a directory and returns its exit status.
int run_script(const TempDirectory& temp, const std::string& directory, const std::string& more) {
  return run_on_logits("hugging_face_logits.py", temp, directory, more);
}

TEST(ExportHuggingFace, AnIndependentScriptComputesOurLogits) {
  for (const auto& item : hugging_face_cases()) {
    const TempDirectory temp;
    const std::string out = random_export(temp, item);
    const at::Tensor tokens = some_tokens();
    save_tensors(real_file_system(), temp.path() / "expected.safetensors",
                 {{"tokens", tokens}, {"logits", logits_of(temp.path("model"), tokens)}});
    const int status = run_script(temp, out, "");
    if (status == 77) GTEST_SKIP() << "python3 has no PyTorch";
    EXPECT_EQ(status, 0) << item.architecture;
    EXPECT_EQ(run_script(temp, out, "--swap gate-up"), 1) << item.architecture;
    EXPECT_NE(run_on_logits("transformers_logits.py", temp, out, ""), 1) << item.architecture;
  }
}

/// In F16 a gate of 2^-64 would be 0, and llama.cpp's conversion would compute 0/0.
TEST(ExportHuggingFace, AGateThatMakesUpForNoneIsNoZeroInHalves) {
  const TempDirectory temp;
  ModelConfig config = small_moe();
  config.moe.shared_width = 40;
  const std::string model = write_random_model(config, temp.path("model")), out = temp.path("hf");
  export_model({.model = model, .out = out, .dtype = ExportDtype::kF16, .check_tokens = 48});
  const at::Tensor gate =
      open_model_source(out)->tensor("model.layers.0.mlp.shared_expert_gate.weight");
  EXPECT_EQ(gate.scalar_type(), at::kHalf);
  EXPECT_TRUE(gate.ne(0).all().item<bool>());
  EXPECT_LT(gate.abs().max().item<double>(), 1e-6);
}

TEST(ExportHuggingFace, OurOwnReaderGivesBackEveryBit) {
  for (const auto& item : hugging_face_cases()) {
    const TempDirectory temp;
    const std::string out = random_export(temp, item, 1e-4);  // several shards
    const auto before = open_model_source(temp.path("model"));
    const auto after = open_model_source(out);
    for (const std::string& name : before->names()) {
      if (name.starts_with("penstock.")) continue;
      const bool reordered =
          item.config.rope_adjacent &&
          (name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos);
      if (reordered) continue;  // the export reorders these rows
      // The model has no gate here: the export adds a gate of 1/2 and doubles down_proj.
      const bool halved = item.architecture == "qwen2moe" && item.config.moe.shared_width > 0 &&
                          !item.config.moe.shared_gate &&
                          name.ends_with("shared_expert.down_proj.weight");
      EXPECT_TRUE(torch::equal(before->tensor(name) * (halved ? 2 : 1), after->tensor(name)))
          << item.architecture << ": " << name;
    }
    EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors.index.json"));
    const at::Tensor ours = logits_of(temp.path("model"), some_tokens());
    const at::Tensor theirs = logits_of(out, some_tokens());
    EXPECT_LT((ours - theirs).abs().max().item<double>(), 1e-5 * ours.abs().max().item<double>());
  }
}

/// All experts are active, so rounding changes no choice.
TEST(ExportHuggingFace, EveryArchitectureComputesTheModelInHalves) {
  for (HuggingFaceCase item : hugging_face_cases())
    for (const auto& [dtype, tolerance] : std::vector<std::pair<ExportDtype, double>>{
             {ExportDtype::kF16, 0.02}, {ExportDtype::kBF16, 0.15}}) {
      SCOPED_TRACE(concat(item.architecture, " ", word(dtype)));
      if (item.config.moe.experts > 0)
        item.config.router.k = static_cast<double>(item.config.moe.experts);
      const TempDirectory temp;
      const std::string model = write_random_model(item.config, temp.path("model")),
                        out = temp.path("hf");
      export_model({.model = model,
                    .out = out,
                    .architecture = item.architecture,
                    .dtype = dtype,
                    .check_tokens = 0});
      const double off = testing::relative_difference(model, out);
      EXPECT_GT(off, 0);
      EXPECT_LT(off, tolerance);
    }
}

TEST(ExportHuggingFace, AnExportOfAnExportIsTheSame) {
  for (const HuggingFaceCase& item : std::vector<HuggingFaceCase>{{"mixtral", small_moe("after")},
                                                                  {"qwen3moe", small_qwen3()},
                                                                  {"deepseek", small_deepseek()}}) {
    const TempDirectory temp;
    const std::string out = random_export(temp, item);
    export_model({.model = out,
                  .out = temp.path("again"),
                  .architecture = item.architecture,
                  .check_tokens = 0});
    for (const char* const name :
         {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
      EXPECT_EQ(real_file_system().read(out + "/" + name),
                real_file_system().read(temp.path() / "again" / name))
          << item.architecture << ": " << name;
  }
}

TEST(ExportHuggingFace, MixtralsNames) {
  const auto named = [](std::string_view architecture, const std::string& name) {
    const auto all = architectures();
    return hugging_face_name(*std::ranges::find(all, architecture, &Architecture::name),
                             "model.layers.3." + name);
  };
  const std::string theirs = "model.layers.3.block_sparse_moe.";
  EXPECT_EQ(named("mixtral", "mlp.experts.5.gate_proj.weight"), theirs + "experts.5.w1.weight");
  EXPECT_EQ(named("mixtral", "mlp.experts.5.up_proj.weight"), theirs + "experts.5.w3.weight");
  EXPECT_EQ(named("mixtral", "mlp.experts.5.down_proj.weight"), theirs + "experts.5.w2.weight");
  EXPECT_EQ(named("mixtral", "mlp.gate.weight"), theirs + "gate.weight");
  EXPECT_EQ(named("qwen2moe", "mlp.gate.weight"), "model.layers.3.mlp.gate.weight");
}

TEST(ExportHuggingFace, ConfigsInBothSpellings) {
  const ExportTarget target =
      choose_export_target(small_moe().resolved(), ExportFormat::kHuggingFace, "qwen2moe");
  const auto config =
      nlohmann::json::parse(hugging_face_config_text(target, ExportDtype::kBF16, {}));
  EXPECT_EQ(config["model_type"], "qwen2_moe");
  EXPECT_EQ(config["rope_theta"], 1e4);
  EXPECT_EQ(config["rope_parameters"]["rope_theta"], 1e4);
  EXPECT_EQ(config["torch_dtype"], "bfloat16");
  EXPECT_EQ(config["dtype"], "bfloat16");
  EXPECT_EQ(config["norm_topk_prob"], false);
  EXPECT_EQ(config["num_experts"], 4);
  EXPECT_EQ(config["moe_intermediate_size"], 96);
  EXPECT_GT(config["shared_expert_intermediate_size"], 0);
}

/// Without a tokenizer the ids are those of the source's config.json, and its
/// generation_config.json comes along.
TEST(ExportHuggingFace, KeepsTheIdsOfAFolderWithoutATokenizer) {
  const TempDirectory temp;
  const std::string model = temp.path("model");
  write_random_model(small_dense(), model, /*with_tokenizer=*/false);
  auto& fs = real_file_system();
  auto config = nlohmann::json::parse(fs.read(model + "/config.json"));
  config["bos_token_id"] = 3;
  config["eos_token_id"] = {5, 255};
  config["pad_token_id"] = 256;  // the vocabulary has 256 tokens
  write_file_atomically(fs, model + "/config.json", config.dump());
  const auto exported = [&](const char* out, const std::string& generation) {
    write_file_atomically(fs, model + "/generation_config.json", generation);
    const std::string path = temp.path(out);
    export_model({.model = model, .out = path, .check_tokens = 0});
    return path;
  };
  const std::string generation = "{\"eos_token_id\": [5, 255],  \"temperature\": 0.7}\n";
  const std::string out = exported("hf", generation);
  const auto written = nlohmann::json::parse(fs.read(out + "/config.json"));
  EXPECT_EQ(written["bos_token_id"], 3);
  EXPECT_EQ(written["eos_token_id"], nlohmann::json({5, 255}));
  EXPECT_TRUE(written["pad_token_id"].is_null());
  EXPECT_EQ(fs.read(out + "/generation_config.json"), generation);
  EXPECT_FALSE(std::filesystem::exists(exported("wrong", "{\"eos_token_id\": 256}") +
                                       "/generation_config.json"));
}

TEST(ExportHuggingFace, ThereAreNoBlocks) {
  const TempDirectory temp;
  const std::string model = write_random_model(small_dense(), temp.path("model"));
  EXPECT_THROW(export_model({.model = model, .out = temp.path("hf"), .dtype = ExportDtype::kQ8_0}),
               Error);
  EXPECT_FALSE(std::filesystem::exists(temp.path() / "hf"));
}

}  // namespace
}  // namespace penstock
