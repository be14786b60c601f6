// Pretrained models and a labelled data set that are small enough to train on in moments.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "penstock/base/random.h"
#include "penstock/data/tokenizer.h"
#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/finetune/run.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/models/make_model.h"

namespace penstock::testing {

/// A config with two layers of width 32 over bytes, and four experts unless the method is "dense".
inline ModelConfig small_body(ModelKind architecture, const std::string& method) {
  ModelConfig config{.architecture = architecture,
                     .vocab = 256,
                     .d_model = 32,
                     .layers = 2,
                     .heads = 2,
                     .d_ffn = 32,
                     .context = 64};
  config.init_std = 0.1;
  if (method != "dense") config.moe.experts = 4;
  config.router.method = method;
  return config;
}

/// Writes an untrained model with a byte tokenizer into a new folder.
inline std::string write_model(const std::filesystem::path& folder, const ModelConfig& config) {
  std::filesystem::create_directories(folder);
  torch::manual_seed(1);
  const auto model = make_model(config, 1);
  save_tensors(real_file_system(), folder / "model.safetensors", file_tensors(*model));
  std::ofstream(folder / "config.json") << config_json_text(model->config());
  make_tokenizer("bytes", {})->save(folder.string());
  return folder.string();
}

/// Writes a file in SST-2's format. A text has 3 to 6 letters from c to h, and one a (negative) or
/// b (positive).
inline void write_letters(const std::filesystem::path& path, int rows, std::uint64_t seed) {
  std::ofstream out(path);
  out << "sentence\tlabel\n";
  for (int row = 0; row < rows; ++row) {
    std::uint64_t index = 0;
    const auto draw = [&](std::uint64_t bound) {
      return random_below(random_bits(seed, static_cast<std::uint64_t>(row), index++), bound);
    };
    std::string text;
    for (std::uint64_t i = 0, length = 3 + draw(4); i < length; ++i)
      text += static_cast<char>('c' + draw(6));
    const auto label = draw(2);
    text.insert(draw(text.size() + 1), 1, label ? 'b' : 'a');
    out << text << '\t' << label << '\n';
  }
}

/// Writes a folder like SST-2's, with train.tsv and dev.tsv.
inline std::string write_task(const std::filesystem::path& folder, int train, int dev) {
  std::filesystem::create_directories(folder);
  write_letters(folder / "train.tsv", train, 1);
  write_letters(folder / "dev.tsv", dev, 2);
  return folder.string();
}

}  // namespace penstock::testing
