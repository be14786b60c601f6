#include "penstock/convert/upcycle/key_cache.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <filesystem>
#include <optional>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/models/files/fingerprint.h"
#include "penstock/models/formats/torch_safetensors.h"

namespace penstock {
namespace {

std::string name_of(std::size_t layer) { return "layer." + std::to_string(layer); }

std::string identity(const ModelSource& dense, const at::Tensor& windows,
                     const KeyOptions& options) {
  const at::Tensor ids = windows.contiguous();
  Xxh64 sum;
  sum.update({static_cast<const std::byte*>(ids.data_ptr()), ids.nbytes()});
  return fmt::format("{}-{:016x}-{}x{}{}{}", fingerprint(dense), sum.value(), ids.size(0),
                     ids.size(1), options.after_rope ? "-post" : "",
                     options.bias ? "" : "-without-bias");
}

/// The keys in the file; nothing if the file does not hold keys of such a model.
std::optional<std::vector<at::Tensor>> kept_keys(const std::string& path,
                                                 const ModelConfig& config) {
  if (!std::filesystem::exists(path)) return {};
  TensorMap tensors;
  try {
    tensors = load_tensors(path);
  } catch (const Error&) {
    return {};
  }
  std::vector<at::Tensor> out;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const auto it = tensors.find(name_of(static_cast<std::size_t>(layer)));
    if (it == tensors.end() || it->second.scalar_type() != at::kFloat ||
        it->second.sizes() != at::IntArrayRef{config.heads, config.head_dim})
      return {};
    out.push_back(it->second);
  }
  return out;
}

}  // namespace

std::vector<at::Tensor> KeyCache::keys_of(const ModelSource& dense, const at::Tensor& windows,
                                          const KeyOptions& options,
                                          const ConversionProgress& progress) const {
  if (!fs_) return mean_keys(dense, windows, options, progress);
  const std::string path = directory_ + "/" + identity(dense, windows, options) + ".safetensors";
  if (auto kept = kept_keys(path, dense.config())) return *kept;
  const std::vector<at::Tensor> keys = mean_keys(dense, windows, options, progress);
  TensorMap tensors;
  for (std::size_t layer = 0; layer < keys.size(); ++layer) tensors[name_of(layer)] = keys[layer];
  create_directories(*fs_, directory_);
  save_tensors(*fs_, path, tensors);
  return keys;
}

}  // namespace penstock
