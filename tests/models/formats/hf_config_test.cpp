#include "penstock/models/formats/hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/base/error_of.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::error_of;

json config_of(const std::string& type) {
  json out = {{"model_type", type},       {"vocab_size", 100},
              {"hidden_size", 16},        {"intermediate_size", 40},
              {"num_hidden_layers", 4},   {"num_attention_heads", 4},
              {"num_key_value_heads", 2}, {"max_position_embeddings", 64}};
  if (type == "mistral") out["sliding_window"] = nullptr;
  if (type == "mixtral") out["num_local_experts"] = 8;
  if (type == "olmoe" || type.starts_with("qwen2_") || type == "qwen3_moe") out["num_experts"] = 8;
  if (type == "deepseek") out["n_routed_experts"] = 8;
  if (type == "mixtral" || type == "deepseek" || out.contains("num_experts"))
    out["num_experts_per_tok"] = 2;
  if (type.ends_with("_moe") || type == "deepseek") out["moe_intermediate_size"] = 12;
  if (type == "qwen2_moe") out["shared_expert_intermediate_size"] = 20;
  if (type == "deepseek") out["n_shared_experts"] = 2;
  return out;
}

ModelConfig read(const json& config) { return hf_model_config(config, "config.json"); }

ModelConfig read_with(const std::string& type, const json& changes) {
  json config = config_of(type);
  config.update(changes);
  return read(config);
}

bool topk_option(const ModelConfig& config, const char* key) {
  return testing::option<bool>(resolve(config.router), "topk", key);
}

std::string softmax_of(const ModelConfig& config) {
  return testing::option<std::string>(resolve(config.router), "topk", "softmax");
}

double balance_of(const ModelConfig& config) {
  return testing::option<double>(resolve(config.router), "load-balance", "coefficient");
}

TEST(HfConfig, ReadsALlama) {
  const ModelConfig c =
      read_with("llama", {{"rope_theta", 5e5}, {"tie_word_embeddings", true}, {"head_dim", 8}});
  EXPECT_EQ(c.vocab, 100);
  EXPECT_EQ(c.d_model, 16);
  EXPECT_EQ(c.d_ffn, 40);
  EXPECT_EQ(c.layers, 4);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 8);
  EXPECT_EQ(c.context, 64);
  EXPECT_EQ(c.rope_base, 5e5);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_TRUE(c.tie_embeddings);
  EXPECT_FALSE(c.qkv_bias || c.qk_norm || c.rope_adjacent);
  EXPECT_EQ(c.moe_layers(), 0);
}

TEST(HfConfig, DefaultsAreThoseOfTheClass) {
  json config = config_of("llama");
  config.erase("num_key_value_heads");
  EXPECT_EQ(read(config).kv_heads, 4);
  config = config_of("mistral");
  config["num_attention_heads"] = 16;
  config["head_dim"] = 4;
  config.erase("num_key_value_heads");
  EXPECT_EQ(read(config).kv_heads, 8);
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(read(config).kv_heads, 16);
  EXPECT_EQ(read(config_of("mixtral")).rope_base, 1e6);
  EXPECT_EQ(read(config_of("mixtral")).norm_eps, 1e-5);
  EXPECT_TRUE(read(config_of("qwen2")).qkv_bias);
  EXPECT_TRUE(read(config_of("qwen2_moe")).qkv_bias);
  EXPECT_FALSE(read_with("qwen2_moe", {{"qkv_bias", false}}).qkv_bias);
}

TEST(HfConfig, KeysThatTheClassHasADefaultForMayBeAbsent) {
  struct Case {
    const char* type;
    std::int64_t context, experts;
    double k, balance;
  };
  // The defaults of configuration_<type>.py in transformers 4.57 and 5.
  for (const Case& it : std::vector<Case>{{"llama", 2048, 0, 0, 0},
                                          {"mistral", 131072, 0, 0, 0},
                                          {"qwen2", 32768, 0, 0, 0},
                                          {"mixtral", 131072, 8, 2, 0.001},
                                          {"qwen2_moe", 32768, 60, 4, 0.001},
                                          {"olmoe", 4096, 64, 8, 0.01}}) {
    json config = config_of(it.type);
    for (const char* const key :
         {"max_position_embeddings", "num_experts", "num_local_experts", "num_experts_per_tok",
          "moe_intermediate_size", "shared_expert_intermediate_size"})
      config.erase(key);
    const ModelConfig c = read(config);
    EXPECT_EQ(c.context, it.context) << it.type;
    if (it.experts == 0) continue;
    EXPECT_EQ(c.moe.experts, it.experts) << it.type;
    EXPECT_EQ(c.active_experts(), it.k) << it.type;
    EXPECT_EQ(balance_of(c), it.balance) << it.type;
    EXPECT_EQ(c.expert_width(), std::string(it.type) == "qwen2_moe" ? 1408 : 40);
    EXPECT_EQ(c.moe.shared_width, std::string(it.type) == "qwen2_moe" ? 5632 : 0);
  }
  // A sliding window does not affect a text that is no longer than the window.
  json mistral = config_of("mistral");
  mistral.erase("max_position_embeddings");
  mistral.erase("sliding_window");
  EXPECT_EQ(read(mistral).context, 4096);
  EXPECT_EQ(read_with("olmoe", {{"num_experts", nullptr}, {"num_local_experts", 16}}).moe.experts,
            16);
}

TEST(HfConfig, SizesThatNoClassKnowsAreAskedFor) {
  for (const char* const type : {"llama", "mistral", "qwen2", "mixtral", "olmoe", "qwen2_moe"})
    for (const std::string key : {"vocab_size", "hidden_size", "intermediate_size",
                                  "num_hidden_layers", "num_attention_heads"}) {
      if (type == std::string("qwen2_moe") && key == "intermediate_size") continue;
      json config = config_of(type);
      config.erase(key);
      EXPECT_NE(error_of([&] { read(config); }).find(key + " is missing"), std::string::npos)
          << type << ": " << key;
    }
}

TEST(HfConfig, ReadsTheRotaryBaseInBothSpellings) {
  const json v5 = {{"rope_type", "default"}, {"rope_theta", 777.0}};
  EXPECT_EQ(read_with("llama", {{"rope_parameters", v5}}).rope_base, 777);
  EXPECT_EQ(read_with("llama", {{"rope_parameters", v5}, {"rope_theta", 777}}).rope_base, 777);
  testing::expect_says(error_of([&] {
                         read_with("llama", {{"rope_parameters", v5}, {"rope_theta", 778}});
                       }),
                       {"contradicts"});
}

TEST(HfConfig, GatesAreThoseOfEachClass) {
  const ModelConfig mixtral = read(config_of("mixtral"));
  EXPECT_EQ(softmax_of(mixtral), "after");
  EXPECT_EQ(mixtral.expert_width(), 40);
  EXPECT_EQ(mixtral.moe.shared_width, 0);
  EXPECT_EQ(balance_of(mixtral), 0.001);
  const ModelConfig qwen = read(config_of("qwen2_moe"));
  EXPECT_EQ(softmax_of(qwen), "before");
  EXPECT_FALSE(topk_option(qwen, "renormalise"));
  EXPECT_TRUE(topk_option(read_with("qwen2_moe", {{"norm_topk_prob", true}}), "renormalise"));
  EXPECT_EQ(qwen.expert_width(), 12);
  EXPECT_EQ(qwen.moe.shared_width, 20);
  EXPECT_TRUE(qwen.moe.shared_gate);
  EXPECT_EQ(qwen.moe_layers(), 4);
  const ModelConfig olmoe = read_with("olmoe", {{"clip_qkv", 8.0}});
  EXPECT_TRUE(olmoe.qk_norm);
  EXPECT_EQ(olmoe.clip_qkv, 8);
  EXPECT_EQ(balance_of(olmoe), 0.01);
  EXPECT_EQ(balance_of(read_with("olmoe", {{"router_aux_loss_coef", 0.5}})), 0.5);
  EXPECT_EQ(read_with("mixtral", {{"router_jitter_noise", 0.1}}).router.scorer, "jitter-linear");
}

TEST(HfConfig, LayersWithoutExpertsAreMappedWhereTheyCanBe) {
  const auto placed = [](const json& only, int step) {
    return read_with(
        "qwen2_moe",
        {{"mlp_only_layers", only}, {"decoder_sparse_step", step}, {"intermediate_size", 12}});
  };
  const ModelConfig first = placed({2, 3}, 1);
  EXPECT_TRUE(first.is_moe(0) && first.is_moe(1));
  EXPECT_FALSE(first.is_moe(2) || first.is_moe(3));
  const ModelConfig every = placed({1, 3}, 1);
  EXPECT_TRUE(every.is_moe(0) && every.is_moe(2));
  EXPECT_FALSE(every.is_moe(1) || every.is_moe(3));
  EXPECT_EQ(placed(json::array(), 1).moe_layers(), 4);
  const ModelConfig last = placed({0}, 1);
  EXPECT_FALSE(last.is_moe(0));
  EXPECT_EQ(last.moe_layers(), 3);
  const ModelConfig odd = placed(json::array(), 2);
  EXPECT_TRUE(odd.is_moe(1) && odd.is_moe(3));
  EXPECT_EQ(odd.moe_layers(), 2);
  EXPECT_EQ(placed({0, 1, 2}, 1).moe_layers(), 1);
  testing::expect_says(error_of([&] { placed({2}, 1); }), {"decoder_sparse_step"});
  testing::expect_says(error_of([&] { placed({0, 1, 2, 3}, 1); }), {"no layer"});
  testing::expect_says(error_of([&] { placed({7}, 1); }), {"mlp_only_layers"});
  // In that class, the width of a layer without experts differs from the experts' width.
  EXPECT_EQ(read_with("qwen2_moe", {{"mlp_only_layers", {3}}}).dense_width(), 40);
  EXPECT_EQ(read_with("qwen2_moe", {{"mlp_only_layers", {3}}}).expert_width(), 12);
  EXPECT_EQ(read_with("qwen2_moe", {{"intermediate_size", nullptr}}).moe.dense_width, 0);
}

TEST(HfConfig, ReadsAQwen3Moe) {
  const ModelConfig c = read_with("qwen3_moe", {{"head_dim", 8}, {"norm_topk_prob", true}});
  EXPECT_TRUE(c.qk_norm_per_head);
  EXPECT_FALSE(c.qk_norm || c.qkv_bias || c.moe.shared_gate);
  EXPECT_EQ(c.head_dim, 8);
  EXPECT_EQ(c.norm_width(c.heads), 8);
  EXPECT_EQ(c.expert_width(), 12);
  EXPECT_EQ(c.moe.shared_width, 0);
  EXPECT_EQ(c.moe_layers(), 4);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.rope_base, 1e4);
  EXPECT_EQ(balance_of(c), 0.001);
  EXPECT_EQ(softmax_of(c), "before");
  EXPECT_TRUE(topk_option(c, "renormalise"));
  EXPECT_FALSE(topk_option(read(config_of("qwen3_moe")), "renormalise"));
  const ModelConfig some =
      read_with("qwen3_moe", {{"decoder_sparse_step", 2}, {"mlp_only_layers", json::array()}});
  EXPECT_TRUE(some.is_moe(1) && some.is_moe(3));
  EXPECT_EQ(some.dense_width(), 40);
  // Unlike in Qwen2, a window holds for all layers.
  testing::expect_says(error_of([&] {
                         read_with("qwen3_moe", {{"use_sliding_window", true},
                                                 {"sliding_window", 32},
                                                 {"max_window_layers", 28}});
                       }),
                       {"sliding_window"});
}

TEST(HfConfig, ReadsADeepseek) {
  const ModelConfig c = read_with("deepseek", {{"first_k_dense_replace", 1}});
  EXPECT_FALSE(c.is_moe(0));
  EXPECT_EQ(c.moe_layers(), 3);
  EXPECT_EQ(c.dense_width(), 40);
  EXPECT_EQ(c.expert_width(), 12);
  EXPECT_EQ(c.moe.shared_width, 24);  // two shared experts
  EXPECT_FALSE(c.moe.shared_gate);
  EXPECT_EQ(balance_of(read_with("deepseek", {{"aux_loss_alpha", 0.25}})), 0.25);
  EXPECT_EQ(read(config_of("deepseek")).moe_layers(), 4);
  EXPECT_EQ(read_with("deepseek", {{"n_shared_experts", nullptr}}).moe.shared_width, 0);
  const ModelConfig every =
      read_with("deepseek", {{"first_k_dense_replace", 1}, {"moe_layer_freq", 2}});
  EXPECT_TRUE(every.is_moe(2));
  EXPECT_EQ(every.moe_layers(), 1);
  EXPECT_TRUE(topk_option(read_with("deepseek", {{"norm_topk_prob", true}}), "renormalise"));
  EXPECT_FALSE(
      topk_option(read_with("deepseek", {{"norm_topk_prob", true}, {"num_experts_per_tok", 1}}),
                  "renormalise"));  // as in the class's code
  for (const char* const key : {"n_routed_experts", "num_experts_per_tok"})
    testing::expect_says(error_of([&] { read_with("deepseek", {{key, nullptr}}); }), {key});
  testing::expect_says(error_of([&] {
                         read_with("deepseek", {{"first_k_dense_replace", 4}});
                       }),
                       {"first_k_dense_replace and moe_layer_freq leave no layer"});
}

TEST(HfConfig, WhatTheDecoderDoesNotComputeIsRefusedByName) {
  struct Case {
    const char* type;
    json changes;
    const char* key;
  };
  const std::vector<Case> cases = {
      {"llama", {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}, "rope_scaling"},
      {"llama", {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}}}, "rope_scaling"},
      {"llama", {{"rms_norm_eps", nullptr}}, "rms_norm_eps"},
      {"llama", {{"rope_scaling", {{"short_factor", {1.0}}}}}, "rope_scaling"},
      {"qwen2", {{"rope_parameters", {{"rope_type", "yarn"}}}}, "rope_parameters"},
      {"llama", {{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}, "rope_parameters"},
      {"llama", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
      {"llama", {{"hidden_act", "gelu"}}, "hidden_act"},
      {"llama", {{"mlp_bias", true}}, "mlp_bias"},
      {"llama", {{"attention_bias", true}}, "attention_bias"},
      {"olmoe", {{"attention_bias", true}}, "attention_bias"},
      {"llama", {{"quantization_config", {{"bits", 4}}}}, "quantization_config"},
      {"llama", {{"torch_dtype", "float8_e4m3fn"}}, "torch_dtype"},
      {"mistral", {{"sliding_window", 32}}, "sliding_window"},
      {"mixtral", {{"sliding_window", 63}}, "sliding_window"},
      {"qwen2",
       {{"use_sliding_window", true}, {"sliding_window", 32}, {"max_window_layers", 2}},
       "sliding_window"},
      {"mixtral", {{"num_experts_per_tok", 9}}, "num_experts_per_tok"},
      {"olmoe", {{"clip_qkv", 0}}, "clip_qkv"},
      {"qwen3_moe", {{"attention_bias", true}}, "attention_bias"},
      {"deepseek", {{"scoring_func", "sigmoid"}}, "scoring_func"},
      {"deepseek", {{"routed_scaling_factor", 2.5}}, "routed_scaling_factor"},
  };
  for (const Case& it : cases) {
    const std::string text = error_of([&] { read_with(it.type, it.changes); });
    EXPECT_NE(text.find(std::string("config.json: ") + it.key), std::string::npos)
        << it.key << ": " << text;
  }
  testing::expect_says(error_of([] { read_with("gpt2", json::object()); }), {"model_type"});
  testing::expect_says(error_of([] { read(json::object()); }),
                       {"config.json: model_type is missing"});
}

TEST(HfConfig, WindowsThatHideNothingAreRead) {
  EXPECT_NO_THROW(read_with("mistral", {{"sliding_window", 64}}));
  EXPECT_NO_THROW(read_with("qwen2", {{"use_sliding_window", false}, {"sliding_window", 32}}));
  EXPECT_NO_THROW(read_with(
      "qwen2", {{"use_sliding_window", true}, {"sliding_window", 32}, {"max_window_layers", 4}}));
  EXPECT_NO_THROW(read_with("mixtral", {{"sliding_window", nullptr}}));
  json mistral = config_of("mistral");
  mistral.erase("sliding_window");  // the class's default is 4096
  EXPECT_NO_THROW(read(mistral));
  mistral["max_position_embeddings"] = 32768;
  testing::expect_says(error_of([&] { read(mistral); }), {"sliding_window = 4096"});
}

TEST(HfConfig, MalformedValuesAreNamed) {
  const std::vector<std::pair<const char*, json>> wrong = {{"hidden_size", nullptr},
                                                           {"hidden_size", -4},
                                                           {"hidden_size", 1.5},
                                                           {"hidden_size", "16"},
                                                           {"hidden_size", 18446744073709551615u},
                                                           {"num_hidden_layers", 20000},
                                                           {"rms_norm_eps", -1},
                                                           {"rope_theta", "1e4"},
                                                           {"tie_word_embeddings", 1},
                                                           {"rope_scaling", 3},
                                                           {"hidden_act", 2},
                                                           {"head_dim", 0}};
  for (const auto& [key, value] : wrong)
    EXPECT_NE(error_of([&] {
                read_with("llama", {{key, value}});
              }).find(key),
              std::string::npos)
        << key;
  testing::expect_says(error_of([] { read(json::array()); }), {"object"});
  testing::expect_says(
      error_of([] {
        read_with("llama", {{"num_attention_heads", 3}});
      }),
      {"config.json: hidden_size = 16 is not a multiple of num_attention_heads = 3; change one, or "
       "set head_dim"});
  testing::expect_says(
      error_of([] {
        read_with("qwen3_moe", {{"num_key_value_heads", 3}});
      }),
      {"config.json: num_attention_heads = 4 is not a multiple of num_key_value_heads = 3"});
  testing::expect_says(error_of([] {
                         read_with("mistral", {{"head_dim", 5}});
                       }),
                       {"config.json: head_dim = 5 is the width of a head"});
}

}  // namespace
}  // namespace penstock
