// penstock eval MODEL --text FILE: raw text in the model's own tokens.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/models/model_config.h"

namespace penstock {

struct EvalTextOptions {
  std::string model, text, tokenizer, per_token, protocol = "windows";
  std::int64_t length = 0;  ///< tokens per window; 0: the model's context
  bool json = false, fold = false, as_trained = false, int8 = false;
};

/// Prints loss, perplexity and bits per byte of the file's text.
void run_eval_text(const EvalTextOptions& options);

/// Prints choice_note() if it is not empty.
void print_choice_note(const ModelConfig& config);

/// Warns on standard error if windows are longer than the context that the model was trained on.
void note_beyond_context(const ModelConfig& config, std::int64_t length);

/// Throws Error for a loss that is not finite. The error names a tensor that is not finite, or says
/// that the activations overflow.
/// @param data  path of the text or corpus, for the error
void check_loss_is_finite(double loss, const std::string& model, const std::string& data);

}  // namespace penstock
