#include "penstock/models/formats/llama2c_source.h"

#include <filesystem>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/data/tokenizers/from_files.h"

namespace penstock {
namespace {

ModelConfig config_of(const Llama2cLayout& layout, const std::string& path) {
  ModelConfig config;
  config.d_model = layout.d_model;
  config.d_ffn = layout.d_ffn;
  config.layers = layout.layers;
  config.heads = layout.heads;
  config.kv_heads = layout.kv_heads;
  config.vocab = layout.vocab;
  config.context = layout.context;
  config.tie_embeddings = layout.tied;
  config.rope_adjacent = true;
  config.rope_base = 1e4;
  config.norm_eps = 1e-5;
  try {
    return config.resolved();
  } catch (const Error& error) {
    fail(path, ": not a llama2.c checkpoint of version 0: ", error.what());
  }
}

std::string tokenizer_beside(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = parent_directory(path);
  if (fs::is_regular_file(folder / "tokenizer.bin")) return (folder / "tokenizer.bin").string();
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("tok") && name.ends_with(".bin") && entry.path() != fs::path(path))
      found.push_back(entry.path().string());
  }
  PENSTOCK_CHECK(!found.empty(), path,
                 ": no tokenizer lies beside it; put its tokenizer.bin (or tok*.bin) there");
  PENSTOCK_CHECK(found.size() == 1, path, ": ", found.size(),
                 " files called tok*.bin lie beside it; name the model's tokenizer.bin");
  return found.front();
}

}  // namespace

Llama2cSource::Llama2cSource(const std::string& path) : Llama2cSource(path, MappedFile(path)) {}

Llama2cSource::Llama2cSource(const std::string& path, MappedFile file)
    : Llama2cSource(path, llama2c_layout(file.bytes(), path), std::move(file)) {}

Llama2cSource::Llama2cSource(const std::string& path, const Llama2cLayout& layout,
                             MappedFile&& file)
    : MappedSource(config_of(layout, path), path), file_(std::move(file)) {
  for (const auto& tensor : layout.tensors)
    tensors_[tensor.name] = {
        .name = tensor.name, .dtype = Dtype::kF32, .shape = tensor.shape, .data = tensor.data};
}

std::shared_ptr<const Tokenizer> Llama2cSource::tokenizer() const {
  const std::string file = tokenizer_beside(origin());
  auto out = load_tokenizer(file);
  PENSTOCK_CHECK(out->vocab_size() == config().vocab, file, ": has ", out->vocab_size(),
                 " pieces, and ", origin(), " a vocabulary of ", config().vocab);
  return out;
}

}  // namespace penstock
