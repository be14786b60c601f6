// config.json files from outside, damaged at random: each is refused or describes a model, and none
// takes much memory. PENSTOCK_MUTATIONS=1000000 tries more of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "penstock/base/error.h"
#include "penstock/models/formats/hf_config.h"

namespace penstock {
namespace {

std::string text_of_config(const std::string& type) {
  return nlohmann::json{{"model_type", type},
                        {"vocab_size", 64},
                        {"hidden_size", 16},
                        {"intermediate_size", 24},
                        {"moe_intermediate_size", 24},
                        {"shared_expert_intermediate_size", 32},
                        {"num_hidden_layers", 2},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 2},
                        {"num_local_experts", 4},
                        {"num_experts", 4},
                        {"num_experts_per_tok", 2},
                        {"norm_topk_prob", false},
                        {"mlp_only_layers", nlohmann::json::array()},
                        {"decoder_sparse_step", 1},
                        {"max_position_embeddings", 32},
                        {"rms_norm_eps", 1e-5},
                        {"rope_theta", 1e4},
                        {"rope_scaling", nullptr},
                        {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}}},
                        {"sliding_window", nullptr},
                        {"tie_word_embeddings", true},
                        {"hidden_act", "silu"}}
      .dump();
}

/// Makes one to four changes: a byte, a run of bytes removed or doubled, a number replaced by
/// another.
std::string mutated(std::string text, std::mt19937_64& draw) {
  static const char* const kValues[] = {
      "0",  "-1", "1e308", "16777216",   "9999999999",   "true", "null", "\"\"",
      "[]", "{}", "65536", "2147483648", "[[[[[[]]]]]]", "0.5",  "NaN"};
  for (auto changes = draw() % 4 + 1; changes > 0 && !text.empty(); --changes) {
    const std::size_t at = draw() % text.size(), length = draw() % 8 + 1;
    switch (draw() % 4) {
      case 0:
        text[at] = static_cast<char>(draw());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      default: {
        const std::size_t colon = text.find(':', at), end = text.find_first_of(",}", colon);
        if (end == std::string::npos) break;
        text.replace(colon + 1, end - colon - 1, kValues[draw() % std::size(kValues)]);
      }
    }
  }
  return text;
}

TEST(HfConfig, MutationsAreRefusedOrDescribeAModel) {
  const char* const asked = std::getenv("PENSTOCK_MUTATIONS");
  const std::int64_t runs = asked ? std::atoll(asked) : 3000;
  const char* const kTypes[] = {"llama", "mistral", "qwen2", "mixtral", "qwen2_moe", "olmoe"};
  std::mt19937_64 draw(7);
  std::int64_t described = 0;
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::string text = mutated(text_of_config(kTypes[draw() % std::size(kTypes)]), draw);
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded()) continue;
    try {
      const ModelConfig config = hf_model_config(json, "config.json");
      EXPECT_GT(config.vocab, 0);
      EXPECT_EQ(config.heads % config.kv_heads, 0);
      ++described;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(described, 0);
}

}  // namespace
}  // namespace penstock
