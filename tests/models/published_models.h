// Configurations whose counts papers state, and one that is small enough to count by hand.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/models/model_config.h"

namespace penstock {

inline ModelConfig published(std::int64_t layers, std::int64_t d, std::int64_t heads) {
  return {.vocab = 51200, .d_model = d, .layers = layers, .heads = heads, .kv_heads = 4};
}

inline ModelConfig with_experts(ModelConfig config, std::int64_t experts,
                                const std::string& method) {
  config.moe.experts = experts;
  config.router.method = method;
  return config;
}

/// HyperRouter §C.1: Transformer-XL small on enwik8's 204 bytes.
inline ModelConfig transformer_xl_small() {
  ModelConfig config{.architecture = ModelKind::transformer_xl, .vocab = 204, .d_model = 256};
  config.layers = 4;
  config.heads = 8;
  config.head_dim = 64;
  config.d_ffn = 512;
  config.xl.memory = 512;
  config.moe.experts = 16;
  config.router.method = "topk";
  config.router.k = 2;
  config.router.parts["linear"].set("bias", true);
  return config;
}

/// d=4, 2 layers, 2 query heads and 1 key/value head of 2, f=8, V=10.
inline ModelConfig tiny(const std::string& method, std::int64_t experts) {
  ModelConfig config{.vocab = 10, .d_model = 4, .layers = 2, .heads = 2, .kv_heads = 1, .d_ffn = 8};
  config.moe.experts = experts;
  config.router.method = method;
  return config;
}

}  // namespace penstock
