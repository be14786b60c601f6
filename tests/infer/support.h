// Small models with large weights, and whole passes over them, for the tests of generation.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/random.h"
#include "penstock/data/token_id.h"
#include "penstock/models/language_model.h"
#include "tests/models/tiny_decoder.h"

namespace penstock::testing {

inline constexpr std::int64_t kVocab = 257;

inline ModelConfig tiny(const std::string& method) {
  ModelConfig config = tiny_decoder(method, /*context=*/0, kVocab);
  config.d_model = 32;
  config.heads = 4;
  config.kv_heads = 2;
  config.init_std = 0.2;
  return config;
}

inline ModelConfig tiny_xl(std::int64_t memory, const std::string& method = "dense") {
  ModelConfig config = tiny(method);
  config.architecture = ModelKind::transformer_xl;
  config.kv_heads = 0;
  config.context = 16;
  config.xl.memory = memory;
  if (method != "dense") config.router.k = 2;
  return config;
}

inline std::vector<TokenId> random_tokens(std::size_t count, std::uint64_t seed) {
  std::vector<TokenId> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(static_cast<TokenId>(random_below(random_bits(seed, 0, i), kVocab)));
  return out;
}

inline at::Tensor as_tensor(const std::vector<TokenId>& tokens) {
  return torch::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end()), torch::kLong)
      .unsqueeze(0);
}

/// Logits [T, V] of one pass over all tokens.
inline at::Tensor whole(LanguageModel& model, const std::vector<TokenId>& tokens) {
  const torch::NoGradGuard no_grad;
  return model.logits(model.forward({.tokens = as_tensor(tokens)}, {}).hidden);
}

}  // namespace penstock::testing
