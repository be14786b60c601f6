// llama2.c checkpoints of version 0, the `.bin` files of the TinyStories models, as a ModelSource.
// Source: legacy_export of llama2.c's export.py (https://github.com/karpathy/llama2.c, 2023).
#pragma once

#include <memory>
#include <string>

#include "penstock/base/mapped_file.h"
#include "penstock/models/formats/llama2c_layout.h"
#include "penstock/models/formats/mapped_source.h"

namespace penstock {

/// The model of a checkpoint with the tensors of llama2c_layout.h. It rotates adjacent pairs with
/// base 10000; its norms have epsilon 1e-5.
class Llama2cSource : public MappedSource {
 public:
  /// Throws Error as llama2c_layout does, and for sizes that do not fit together.
  explicit Llama2cSource(const std::string& path);
  /// The tokenizer of `tokenizer.bin` beside the file, or else of the only file there called
  /// `tok*.bin`.
  /// Throws Error if there is no such file, or more than one, or if its vocabulary is not the
  /// model's.
  std::shared_ptr<const Tokenizer> tokenizer() const override;

 private:
  Llama2cSource(const std::string& path, MappedFile file);
  /// The layout is read from `file` before `file` is moved.
  Llama2cSource(const std::string& path, const Llama2cLayout& layout, MappedFile&& file);
  MappedFile file_;
};

}  // namespace penstock
