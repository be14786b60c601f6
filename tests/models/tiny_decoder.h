// A decoder small enough for many forward passes in a test.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "penstock/models/language_model.h"
#include "penstock/models/make_model.h"

namespace penstock::testing {

/// Two layers, d = 16. Every method but "dense" has four experts with k = 1. The weights are large,
/// so that the output depends on every token.
inline ModelConfig tiny_decoder(const std::string& method, std::int64_t context,
                                std::int64_t vocab = 12) {
  ModelConfig config{.vocab = vocab, .d_model = 16, .layers = 2, .heads = 2, .d_ffn = 24};
  config.context = context;
  config.init_std = 0.3;
  if (method != "dense") config.moe.experts = 4;
  config.router.method = method;
  config.router.k = 1;
  return config;
}

/// The model in f64 and in training mode. Every place draws the same weights.
inline std::shared_ptr<LanguageModel> in_f64(const ModelConfig& config,
                                             const ModelPlace& place = {}) {
  auto out = make_model(config, 7, place);
  out->to(torch::kDouble);
  out->train();
  return out;
}

}  // namespace penstock::testing
