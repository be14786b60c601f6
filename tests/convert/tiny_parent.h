// Small dense models on disk for the conversion tests, and a text for calibration.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <vector>

#include "penstock/base/atomic_files.h"
#include "penstock/convert/upcycle/calibration.h"
#include "penstock/data/tokenizer.h"
#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/models/make_model.h"

namespace penstock::testing {

/// A small Qwen2 config: biases on q, k and v, a tied head, `kv_heads` key heads for 8 query heads.
inline ModelConfig tiny_config(std::int64_t kv_heads = 8) {
  ModelConfig config{.vocab = 257, .d_model = 32, .layers = 2, .heads = 8, .kv_heads = kv_heads};
  config.d_ffn = 24;
  config.context = 32;
  config.qkv_bias = true;
  config.tie_embeddings = true;
  config.norm_eps = 1e-6;
  config.init_std = 0.2;
  return config.resolved();
}

/// Writes the model, with random biases and norm weights too, and the byte tokenizer.
inline void write_parent(const std::string& directory, const ModelConfig& config,
                         at::ScalarType type = at::kFloat) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(5);
  const auto model = make_model(config, 1);
  TensorMap tensors;
  for (auto& [name, tensor] : file_tensors(*model)) {
    if (name.ends_with(".bias")) tensor.normal_(0, 0.3);
    if (name.ends_with("norm.weight")) tensor.normal_(1, 0.1);
    tensors[name] = tensor.to(type);
  }
  auto& fs = real_file_system();
  create_directories(fs, directory);
  write_file_atomically(fs, directory + "/config.json", config_json_text(config.resolved()));
  save_tensors(fs, directory + "/model.safetensors", tensors);
  make_tokenizer("bytes", {})->save(directory);
}

inline void write_text(const std::string& path) {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += "Line " + std::to_string(i * i % 97) + " of a text about nothing in particular.\n";
  write_file_atomically(real_file_system(), path, std::string_view(text));
}

/// Logits of one fixed sequence of tokens, [T, V].
inline at::Tensor logits_of(LanguageModel& model, std::int64_t length = 20) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = (torch::arange(length, at::kLong) * 37 % 250).view({1, length});
  return model.logits(model.forward({.tokens = tokens}, {}).hidden);
}

/// The inputs of every feed-forward layer over the windows: per layer [n·L, d].
inline std::vector<at::Tensor> feed_forward_inputs(const ModelSource& dense,
                                                   const at::Tensor& windows) {
  std::vector<std::vector<at::Tensor>> parts(static_cast<std::size_t>(dense.config().layers));
  visit_feed_forward_inputs(dense, windows, [&](std::int64_t layer, const at::Tensor& inputs) {
    parts[static_cast<std::size_t>(layer)].push_back(inputs.clone());
  });
  std::vector<at::Tensor> out;
  for (const auto& layer : parts) out.push_back(at::cat(layer));
  return out;
}

inline double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

}  // namespace penstock::testing
