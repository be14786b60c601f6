// llama2.c checkpoints of version 0, the `.bin` files of the TinyStories models, as a ModelSource.
// Source: legacy_export of llama2.c's export.py (https://github.com/karpathy/llama2.c, 2023).
#pragma once

#include <memory>
#include <string>

#include "penstock/base/mapped_file.h"
#include "penstock/models/mapped_source.h"

namespace penstock {

/// Seven i32, little-endian: d, f, layers, heads, key/value heads, vocabulary (negative: the head
/// is not the embeddings), context. Then f32, in this order, each for all layers:
///   embeddings [V, d]; attention norms [L, d]; wq [L, d, d]; wk, wv [L, G·hd, d]; wo [L, d, d];
///   feed-forward norms [L, d]; w1 [L, f, d], the gate; w2 [L, d, f], down; w3 [L, f, d], up; last
///   norm [d]; cosines and sines of positions [context, hd/2] each, which are computed anew; and
///   the head [V, d] where it is not tied.
/// The model rotates adjacent pairs with base 10000, its norms have epsilon 1e-5.
class Llama2cSource : public MappedSource {
 public:
  /// Throws Error for other versions, sizes that are no model's, and a file of another length than
  /// they give.
  explicit Llama2cSource(const std::string& path);
  /// Of `tokenizer.bin` beside the file, or else of the one file there called `tok*.bin`. Throws
  /// Error where there is none, or more than one, or it has another vocabulary than the model.
  std::shared_ptr<const Tokenizer> tokenizer() const override;

 private:
  Llama2cSource(const std::string& path, MappedFile file);
  MappedFile file_;
};

}  // namespace penstock
