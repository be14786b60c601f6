// The config of a decoder small enough for many forward passes in a test.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/models/model_config.h"

namespace penstock::testing {

/// Two layers, V = 12, d = 16; four experts with k = 1 but for method "dense". Weights are large,
/// so that tokens matter.
inline ModelConfig tiny_decoder(const std::string& method, std::int64_t context) {
  ModelConfig config;
  config.vocab = 12;
  config.d_model = 16;
  config.layers = 2;
  config.heads = 2;
  config.d_ffn = 24;
  config.context = context;
  config.init_std = 0.3;
  if (method != "dense") config.moe.experts = 4;
  config.router.method = method;
  config.router.k = 1;
  return config;
}

}  // namespace penstock::testing
