// Takes windows of token ids from a corpus or a raw text file, for measuring a model. The same
// arguments give the same windows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "penstock/models/model_source.h"

namespace penstock {

struct SampleOptions {
  std::int64_t tokens = 65536;  ///< the most tokens to take
  std::int64_t length = 0;      ///< tokens in a window; 0: the model's context, at most 512
};

/// Windows [n, L] i64 of consecutive tokens, spread evenly over the text. n·L is about `tokens`, or
/// less for a short text.
/// @param text  a directory that `penstock data prepare` made (its training split is read), or a
///              text file, which the model's own tokenizer encodes; only the beginning of a long
///              file is read
/// Throws Error if there is no text; if the corpus's tokenizer differs from the model's; if the
/// model has no tokenizer and the corpus has ids beyond its vocabulary; or if a text file is given
/// and the model has no tokenizer.
at::Tensor sample_windows(const std::string& text, const ModelSource& model,
                          const SampleOptions& options);

/// Whole windows of [n, L], spread evenly, with about `tokens` tokens; at least one window.
at::Tensor some_windows(const at::Tensor& windows, std::int64_t tokens);

}  // namespace penstock
