// A decoder whose probabilities are the same after every text, so that all losses are known.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "penstock/models/make_model.h"
#include "tests/models/tiny_decoder.h"

namespace penstock::testing {

/// The model's logits by token, and −100 for every other token. Every method but "dense" has four
/// experts.
inline std::shared_ptr<LanguageModel> constant_model(const std::string& method, std::int64_t vocab,
                                                     const std::map<std::int64_t, double>& logits) {
  ModelConfig config = tiny_decoder(method, /*context=*/8, vocab);
  config.layers = 1;
  config.norm_eps = 0;
  auto model = make_model(config, 1);
  const torch::NoGradGuard no_grad;
  auto parameters = model->named_parameters();
  for (auto& item : parameters) item.value().zero_();
  // Attention and experts add nothing, so the head reads a row of ones.
  parameters["embed_tokens"].fill_(1);
  parameters["norm.weight"].fill_(1);
  const at::Tensor first = parameters["lm_head"].select(1, 0);  // [V]
  first.fill_(-100);
  for (const auto& [token, logit] : logits) first[token] = logit;
  return model;
}

}  // namespace penstock::testing
