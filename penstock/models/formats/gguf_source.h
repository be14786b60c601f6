// A GGUF file as a ModelSource: mapped, read tensor by tensor.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "penstock/io/gguf.h"
#include "penstock/models/config_shaped_source.h"

namespace penstock {

/// A model of an architecture of models/formats/architectures.h that has a GGUF graph. Quantised
/// tensors are returned as f32. In `llama` files, rows of q and k are in the order for a rotation
/// of adjacent pairs. The config says so, and no rows are reordered.
class GgufSource : public ConfigShapedSource {
 public:
  /// Throws Error naming the file, and the key or tensor, that is missing, unknown or wrong.
  explicit GgufSource(const std::string& path);
  at::Tensor tensor(const std::string& name) const override;
  std::optional<ops::StoredRows> stored(const std::string& name) const override;
  std::string stored_name(const std::string& name) const override;
  std::shared_ptr<const Tokenizer> tokenizer() const override;

 private:
  explicit GgufSource(std::shared_ptr<const GgufFile> file);
  /// The file's tensor that contains the named tensor, and the named tensor's bytes in it.
  std::pair<const GgufTensor*, std::span<const std::byte>> place_of(const std::string& name) const;

  std::shared_ptr<const GgufFile> file_;
};

/// Whether the path is that of a GGUF file: it ends in .gguf.
bool is_gguf(const std::string& path);

}  // namespace penstock
