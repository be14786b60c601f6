// Small models with random weights, as directories, for tests of conversions.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <cstdlib>
#include <string>

#include "penstock/base/atomic_files.h"
#include "penstock/data/tokenizers/bytes_tokenizer.h"
#include "penstock/models/decoder.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/models/make_model.h"
#include "tests/base/temp_directory.h"

namespace penstock::testing {

/// A dense decoder with two layers over bytes.
inline ModelConfig small_dense() {
  ModelConfig config{.vocab = 256, .d_model = 64, .layers = 2, .heads = 4, .kv_heads = 2};
  config.d_ffn = 96;
  config.context = 64;
  return config;
}

/// A model with four experts, two of them for each token, and softmax probabilities as gates.
inline ModelConfig small_moe(const std::string& softmax = "before") {
  ModelConfig config = small_dense();
  config.moe.experts = 4;
  config.router.method = "topk";
  config.router.k = 2;
  config.router.parts["topk"].set("softmax", softmax);
  return config;
}

/// Three layers with four experts as in DeepSeekMoE. The first layer is dense and has another
/// width. The shared experts are as wide as two experts.
inline ModelConfig small_deepseek() {
  ModelConfig config = small_moe();
  config.layers = 3;
  config.moe.dense_layers = 1;
  config.moe.dense_width = 160;
  config.moe.shared_width = 2 * config.d_ffn;
  return config;
}

/// Four experts as in Qwen3-MoE: norms of each head, head_dim larger than d_model / heads, and
/// gates that sum to one.
inline ModelConfig small_qwen3() {
  ModelConfig config = small_moe();
  config.qk_norm_per_head = true;
  config.head_dim = 32;
  config.router.parts["topk"].set("renormalise", true);
  return config;
}

/// Writes the model with random weights and returns the directory. The weights are drawn so that
/// gates, norms, biases and positions affect the logits.
inline std::string write_random_model(const ModelConfig& config, const std::string& directory,
                                      bool with_tokenizer = true, std::uint64_t seed = 1) {
  const torch::NoGradGuard no_grad;
  const auto model = make_model(config);
  const InitialDraws draws(seed);
  auto tensors = file_tensors(*model);
  for (auto& [name, tensor] : tensors) {
    if (!tensor.is_floating_point() || name.starts_with("penstock.")) continue;
    if (name.find("norm.weight") != std::string::npos)
      draws.normal(name, tensor, 0.2, 1);
    else
      draws.normal(name, tensor, name.ends_with(".bias") ? 0.5 : 0.15);
  }
  auto& fs = real_file_system();
  create_directories(fs, directory);
  write_file_atomically(fs, directory + "/config.json", config_json_text(config.resolved()));
  save_tensors(fs, directory + "/model.safetensors", tensors);
  if (with_tokenizer) make_bytes_tokenizer(true)->save(directory);
  return directory;
}

inline at::Tensor some_tokens(std::int64_t count = 48) {
  return at::arange(1, count + 1, at::kLong).mul(37).remainder(251).add(1).view({1, count});
}

inline at::Tensor logits_of(const std::string& path, const at::Tensor& tokens) {
  const torch::NoGradGuard no_grad;
  const auto model = load_model(path);
  return model->logits(model->forward({.tokens = tokens}, {}).hidden);
}

/// The largest difference between the logits of two models, relative to the first one's largest.
inline double relative_difference(const std::string& model, const std::string& other) {
  const at::Tensor expected = logits_of(model, some_tokens());
  const at::Tensor difference = logits_of(other, some_tokens()) - expected;
  return (difference.abs().max() / expected.abs().max()).item<double>();
}

/// Runs a script of tests/convert on an exported folder and on expected.safetensors in `temp`.
/// Returns its exit status.
inline int run_on_logits(const std::string& script, const TempDirectory& temp,
                         const std::string& directory, const std::string& more) {
  const std::string command = std::string("/usr/bin/python3 -B ") + PENSTOCK_SOURCE_DIR +
                              "/tests/convert/" + script + " " + directory + " " +
                              temp.path("expected.safetensors") + " " + more;
  return std::system(command.c_str()) / 256;
}

}  // namespace penstock::testing
