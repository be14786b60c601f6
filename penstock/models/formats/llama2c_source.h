// llama2.c checkpoints of version 0, the `.bin` files of the TinyStories models, as a ModelSource.
// Source: legacy_export of llama2.c's export.py (https://github.com/karpathy/llama2.c, 2023).
#pragma once

#include <memory>
#include <string>

#include "penstock/base/mapped_file.h"
#include "penstock/models/formats/llama2c_layout.h"
#include "penstock/models/formats/mapped_source.h"

namespace penstock {

/// The tensors of llama2c_layout.h.
/// The model rotates adjacent pairs with base 10000, its norms have epsilon 1e-5.
class Llama2cSource : public MappedSource {
 public:
  /// Throws Error as llama2c_layout does, and for sizes that are no model's.
  explicit Llama2cSource(const std::string& path);
  /// Of `tokenizer.bin` beside the file, or else of the one file there called `tok*.bin`. Throws
  /// Error where there is none, or more than one, or it has another vocabulary than the model.
  std::shared_ptr<const Tokenizer> tokenizer() const override;

 private:
  Llama2cSource(const std::string& path, MappedFile file);
  /// `file` is taken after it was laid out.
  Llama2cSource(const std::string& path, const Llama2cLayout& layout, MappedFile&& file);
  MappedFile file_;
};

}  // namespace penstock
