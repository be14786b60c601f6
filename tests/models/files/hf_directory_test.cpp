// Hugging Face directories in every layout, whole and damaged.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/models/decoder.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "tests/base/error_of.h"
#include "tests/models/checkpoints.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::CheckpointFolder;
using testing::error_of;

json hf_json(const std::string& type) {
  json out = {
      {"model_type", type},       {"vocab_size", 11},         {"hidden_size", 8},
      {"intermediate_size", 6},   {"num_hidden_layers", 2},   {"num_attention_heads", 4},
      {"num_key_value_heads", 2}, {"num_experts_per_tok", 2}, {"max_position_embeddings", 16},
      {"rope_theta", 1e4}};
  out[type == "mixtral" ? "num_local_experts" : "num_experts"] = 3;
  if (type == "qwen2_moe") {
    out["moe_intermediate_size"] = 5;
    out["shared_expert_intermediate_size"] = 7;
  }
  return out;
}

/// A model of that config with random weights, and its tensors by Penstock's names.
struct Drawn {
  explicit Drawn(const json& config) {
    torch::manual_seed(3);
    const CheckpointFolder folder(config, {});
    model = make_model(read_model_config(folder.path()), 1);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.normal_(0, 0.4);
    for (const auto& [name, tensor] : file_tensors(*model)) tensors[name] = tensor.clone();
  }
  std::shared_ptr<LanguageModel> model;
  TensorMap tensors;
};

at::Tensor logits_of_folder(const std::string& path) {
  return testing::logits_of(*load_model(path), {1, 7, 3, 3, 10, 0});
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (const auto at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

TensorMap with_mixtral_names(const TensorMap& tensors) {
  TensorMap out;
  for (const auto& [name, tensor] : tensors) {
    std::string mapped = replaced(name, ".mlp.", ".block_sparse_moe.");
    if (name.find(".experts.") != std::string::npos) {
      mapped = replaced(mapped, "gate_proj", "w1");
      mapped = replaced(mapped, "up_proj", "w3");
      mapped = replaced(mapped, "down_proj", "w2");
    }
    out[mapped] = tensor;
  }
  return out;
}

TensorMap with_experts_in_one(const TensorMap& tensors, const std::string& block) {
  TensorMap out;
  for (const auto& [name, tensor] : tensors)
    if (name.find(".experts.") == std::string::npos) out[replaced(name, ".mlp.", block)] = tensor;
  for (const std::string layer : {"model.layers.0", "model.layers.1"}) {
    std::vector<at::Tensor> in, down;
    for (int e = 0; e < 3; ++e) {
      const std::string stem = layer + ".mlp.experts." + std::to_string(e) + ".";
      in.push_back(
          torch::cat({tensors.at(stem + "gate_proj.weight"), tensors.at(stem + "up_proj.weight")}));
      down.push_back(tensors.at(stem + "down_proj.weight"));
    }
    out[layer + block + "experts.gate_up_proj"] = torch::stack(in);
    out[layer + block + "experts.down_proj"] = torch::stack(down);
  }
  return out;
}

TEST(HfDirectory, EveryLayoutOfExpertsGivesTheSameModel) {
  const Drawn drawn(hf_json("mixtral"));
  const at::Tensor expected = testing::logits_of(*drawn.model, {1, 7, 3, 3, 10, 0});
  for (const TensorMap& tensors : {drawn.tensors, with_mixtral_names(drawn.tensors),
                                   with_experts_in_one(drawn.tensors, ".mlp."),
                                   with_experts_in_one(drawn.tensors, ".block_sparse_moe.")}) {
    const CheckpointFolder folder(hf_json("mixtral"), tensors);
    EXPECT_TRUE(torch::equal(logits_of_folder(folder.path()), expected));
  }
}

TEST(HfDirectory, TheSourceGivesPenstocksNamesAndTheStoredType) {
  const Drawn drawn(hf_json("qwen2_moe"));
  for (const torch::Dtype type : {torch::kHalf, torch::kBFloat16, torch::kFloat}) {
    TensorMap stored;
    for (const auto& [name, tensor] : with_experts_in_one(drawn.tensors, ".mlp."))
      stored[name] = tensor.to(type);
    const CheckpointFolder folder(hf_json("qwen2_moe"), stored);
    const auto source = open_model_source(folder.path());
    ASSERT_EQ(source->names().size(), drawn.tensors.size());
    for (const auto& name : source->names()) {
      const at::Tensor tensor = source->tensor(name);
      EXPECT_EQ(tensor.sizes().vec(), source->shape(name));
      EXPECT_TRUE(torch::equal(tensor, drawn.tensors.at(name).to(type))) << name;
    }
    // The model computes in f32, with weights that equal the stored weights exactly.
    const auto loaded = load_model(folder.path());
    for (const auto& [name, tensor] : file_tensors(*loaded))
      EXPECT_TRUE(torch::equal(tensor, drawn.tensors.at(name).to(type).to(torch::kFloat))) << name;
  }
}

TEST(HfDirectory, ShardsAreOneModel) {
  const Drawn drawn(hf_json("olmoe"));
  CheckpointFolder folder;
  folder.write_config(hf_json("olmoe"));
  std::map<std::string, TensorMap> shards;
  json index;
  std::size_t i = 0;
  for (const auto& [name, tensor] : drawn.tensors) {
    const std::string shard = "model-0000" + std::to_string(1 + i++ % 3) + "-of-00003.safetensors";
    shards[shard][name] = tensor;
    index["weight_map"][name] = shard;
  }
  for (const auto& [name, tensors] : shards) folder.write_weights(tensors, name.c_str());
  const std::string index_name = folder / "model.safetensors.index.json";
  write_file_atomically(real_file_system(), index_name, index.dump());
  EXPECT_TRUE(torch::equal(logits_of_folder(folder.path()),
                           testing::logits_of(*drawn.model, {1, 7, 3, 3, 10, 0})));

  std::filesystem::remove(folder / "model-00002-of-00003.safetensors");
  testing::expect_says(error_of([&] { open_model_source(folder.path()); }),
                       {"model-00002-of-00003"});
}

TEST(HfDirectory, ATiedHeadMayBeStoredTwiceButNotDiffer) {
  json config = hf_json("mixtral");
  config["tie_word_embeddings"] = true;
  const Drawn drawn(config);
  ASSERT_FALSE(drawn.tensors.contains("lm_head.weight"));
  const at::Tensor expected = testing::logits_of(*drawn.model, {1, 7, 3, 3, 10, 0});
  TensorMap tensors = drawn.tensors;
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight").clone();
  const CheckpointFolder folder(config, tensors);
  EXPECT_TRUE(torch::equal(logits_of_folder(folder.path()), expected));
  tensors["lm_head.weight"][2][1] += 1;
  folder.write_weights(tensors);
  testing::expect_says(error_of([&] { open_model_source(folder.path()); }), {"lm_head.weight"});
}

TEST(HfDirectory, DamageIsNamed) {
  const Drawn drawn(hf_json("qwen2_moe"));
  CheckpointFolder folder;
  folder.write_config(hf_json("qwen2_moe"));
  const auto error = [&](const std::function<void(TensorMap&)>& damage) {
    TensorMap tensors = drawn.tensors;
    damage(tensors);
    folder.write_weights(tensors);
    return error_of([&] { open_model_source(folder.path()); });
  };
  const auto expect = [&](const std::string& name, const std::string& what,
                          const std::function<void(at::Tensor&)>& damage) {
    const std::string text = error([&](TensorMap& tensors) { damage(tensors.at(name)); });
    testing::expect_says(text, {"'" + name + "'", what, "model.safetensors"});
  };
  const std::string up = "model.layers.1.mlp.experts.2.up_proj.weight";
  expect(up, "transposed", [](at::Tensor& t) { t = t.t().contiguous(); });
  expect(up, "[5, 8]", [](at::Tensor& t) { t = t.narrow(0, 0, 4).contiguous(); });
  expect("model.layers.0.self_attn.q_proj.bias", "asks for [8]",
         [](at::Tensor& t) { t = t.unsqueeze(0); });
  expect("model.norm.weight", "I32", [](at::Tensor& t) { t = t.to(torch::kInt); });
  testing::expect_says(error([&](TensorMap& t) { t.erase(up); }), {"'" + up + "' is missing"});
  testing::expect_says(
      error([&](TensorMap& t) { t["model.layers.1.mlp.experts.3.up_proj.weight"] = t.at(up); }),
      {"unknown tensor 'model.layers.1.mlp.experts.3.up_proj.weight'"});
  testing::expect_says(
      error([](TensorMap& t) { t["model.layers.1.self_attn.o_proj.bias"] = torch::zeros({8}); }),
      {"unknown tensor 'model.layers.1.self_attn.o_proj.bias'"});
  testing::expect_says(
      error([](TensorMap& t) { t["model.layers.2.input_layernorm.weight"] = torch::zeros({8}); }),
      {"unknown tensor 'model.layers.2.input_layernorm.weight'"});
  // The same expert under two names.
  testing::expect_says(
      error([&](TensorMap& t) { t["model.layers.1.mlp.experts.2.w3.weight"] = t.at(up); }),
      {"same part"});
  EXPECT_TRUE(error([](TensorMap& t) {
                t["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch::zeros({1});
                t["x"] = torch::zeros({1});
              }).find("unknown tensor 'x'") != std::string::npos);
}

TEST(HfDirectory, DamageOfExpertsInOneIsNamed) {
  const Drawn drawn(hf_json("mixtral"));
  CheckpointFolder folder;
  folder.write_config(hf_json("mixtral"));
  const auto error = [&](const std::function<void(TensorMap&)>& damage) {
    TensorMap tensors = with_experts_in_one(drawn.tensors, ".mlp.");
    damage(tensors);
    folder.write_weights(tensors);
    return error_of([&] { open_model_source(folder.path()); });
  };
  const std::string fused = "model.layers.0.mlp.experts.gate_up_proj";
  std::string text =
      error([&](TensorMap& t) { t[fused] = t.at(fused).transpose(1, 2).contiguous(); });
  testing::expect_says(text, {"'" + fused + "'", "transposed"});
  text = error([&](TensorMap& t) { t[fused] = t.at(fused).narrow(0, 0, 2).contiguous(); });
  testing::expect_says(text, {"[3, 12, 8]"});
  text = error([&](TensorMap& t) { t.erase(fused); });
  testing::expect_says(text, {"gate_proj.weight' is missing", "'" + fused + "'"});
}

TEST(HfDirectory, ATruncatedFileIsRefused) {
  const Drawn drawn(hf_json("mixtral"));
  const CheckpointFolder folder(hf_json("mixtral"), drawn.tensors);
  const auto size = std::filesystem::file_size(folder / "model.safetensors");
  for (const auto left : {size - 1, size / 2, std::uintmax_t{100}, std::uintmax_t{3}}) {
    std::filesystem::resize_file(folder / "model.safetensors", left);
    testing::expect_says(error_of([&] { open_model_source(folder.path()); }),
                         {"model.safetensors"});
  }
}

TEST(HfDirectory, AConfigThatAsksForFarMoreThanTheFilesHoldIsRefused) {
  const Drawn drawn(hf_json("mixtral"));
  json config = hf_json("mixtral");
  config["num_hidden_layers"] = 10000;
  config["num_local_experts"] = 60000;
  const CheckpointFolder folder(config, drawn.tensors);
  testing::expect_says(error_of([&] { open_model_source(folder.path()); }), {"asks for more"});
}

TEST(HfDirectory, PenstocksOwnTableWins) {
  ModelConfig own{.vocab = 11, .d_model = 8, .layers = 1, .heads = 2, .d_ffn = 6};
  own.rope_adjacent = true;
  json config = json::parse(config_json_text(own.resolved()));
  config["hidden_size"] = 4096;
  CheckpointFolder folder;
  folder.write_config(config);
  EXPECT_EQ(read_model_config(folder.path()).d_model, 8);
  EXPECT_TRUE(read_model_config(folder.path()).rope_adjacent);
  config.erase("penstock");
  config["model_type"] = "llama";
  folder.write_config(config);
  EXPECT_EQ(read_model_config(folder.path()).d_model, 4096);
}

TEST(HfDirectory, ADenseModelThatNoClassComputesIsNotCalledLlama) {
  ModelConfig config;
  config.vocab = 11;
  EXPECT_EQ(json::parse(config_json_text(config.resolved()))["model_type"], "llama");
  for (const auto& change :
       {+[](ModelConfig& c) { c.rope_adjacent = true; }, +[](ModelConfig& c) { c.qk_norm = true; },
        +[](ModelConfig& c) { c.qk_norm_per_head = true; },
        +[](ModelConfig& c) { c.clip_qkv = 8; }}) {
    ModelConfig other = config;
    change(other);
    EXPECT_EQ(json::parse(config_json_text(other.resolved()))["model_type"], "penstock");
  }
}

}  // namespace
}  // namespace penstock
