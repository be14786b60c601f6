// A GGUF file as a ModelSource: mapped, read tensor by tensor.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/io/gguf.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// The architectures of models/formats/architectures.h that have a graph. Quantised tensors are
/// given as f32. Rows of q and k of `llama` lie for a rotation of adjacent pairs, and the config
/// says so; nothing is reordered.
class GgufSource : public ModelSource {
 public:
  /// Throws Error naming the file, and the key or tensor, that is missing, unknown or wrong.
  explicit GgufSource(const std::string& path);
  std::vector<std::string> names() const override;
  std::vector<std::int64_t> shape(const std::string& name) const override;
  at::Tensor tensor(const std::string& name) const override;
  std::optional<ops::StoredRows> stored(const std::string& name) const override;
  std::shared_ptr<const Tokenizer> tokenizer() const override;

 private:
  explicit GgufSource(std::shared_ptr<const GgufFile> file);
  /// The tensor of the file that holds it, and its own bytes of that.
  std::pair<const GgufTensor*, std::span<const std::byte>> place_of(const std::string& name) const;

  std::shared_ptr<const GgufFile> file_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

/// Whether the name is that of a GGUF file: it ends in .gguf.
bool is_gguf(const std::string& path);

/// What the keys and the shapes of a file say of its model. Throws Error as the class does.
ModelConfig read_gguf_config(const GgufFile& file);

}  // namespace penstock
