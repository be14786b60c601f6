// `penstock export`: writes a model from any source as a file that other programs open, with a
// certificate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/fields.h"
#include "penstock/convert/conversion_progress.h"
#include "penstock/convert/export/certificate.h"
#include "penstock/convert/export/export_choice.h"
#include "penstock/convert/export/export_target.h"
#include "penstock/convert/export/export_tensors.h"
#include "penstock/models/model_source.h"

namespace penstock {

struct ExportOptions {
  std::string model;  ///< a path for open_model_source
  std::string out;    ///< directory, or file.gguf; must not exist
  ExportFormat format = ExportFormat::kHuggingFace;
  std::string architecture;
  std::optional<ExportDtype> dtype;
  bool with_tokenizer = true;  ///< write the model's tokenizer, if it has one
  bool fit_bias = false;       ///< fold routers' biases; the verdict is then "fitted"
  /// A corpus or a text file to measure on; empty: a built-in sentence.
  std::string sample;
  std::int64_t check_tokens = 256;
  std::int64_t importance_tokens = 0;
  double shard_size = 5;

  template <class V>
  void visit(V& v) {
    const std::vector<std::string>& known = export_architectures();
    v("format", format,
      {.help = "format of the output; hf: a Hugging Face directory; gguf: a file"});
    v("architecture", architecture,
      {.help = "architecture of the output; not given: the first that computes the same function",
       .choices = {known.begin(), known.end()}});
    v("dtype", dtype,
      {.help = "type of the weights; not given: the stored type. gguf alone: q8_0, q6_k, q4_k (as "
               "llama.cpp's Q4_K_M)"});
    v("check_tokens", check_tokens,
      {.help = "number of tokens for the comparison of file and model; 0: no comparison",
       .min = 0});
    v("importance_tokens", importance_tokens,
      {.help = "run the model over this many tokens of the given text or corpus, and weight errors "
               "of q4_k and q6_k by the mean squares of each weight's inputs; 0: all errors weigh "
               "the same",
       .min = 0});
    v("with_tokenizer", with_tokenizer,
      {.help = "tokenizer in the output; own: the model's; none: no tokenizer",
       .words = {"none", "own"},
       .option = "tokenizer"});
    v("fit_bias", fit_bias,
      {.help = "fold the routers' biases into their matrices, fitted on the given text or corpus"});
    v("shard_size", shard_size,
      {.help = "largest size of a weight file (hf), in GB", .min = 1e-9, .max = 1e9, .unit = "GB"});
  }
};

/// Writes the file, reads it back, compares it with the model and saves the certificate:
/// `certificate.json` in the directory, or `<out>.certificate.json`. Memory: one tensor while
/// writing; one model at a time, in its file's types, while measuring; the model in f32 for
/// `importance_tokens`.
/// Throws NotPortableError if no architecture computes the model's function. Throws Error if
/// something cannot be read, stored or tokenized identically. No file remains after an error.
Certificate export_model(const ExportOptions& options, const ConversionProgress& progress = {});

/// Throws Error if the output exists; an export never replaces it.
void check_is_new(const std::string& out);

/// Rows [B, T] i64 of tokens to measure on, T at most the model's context. They are from
/// `options.sample` or a built-in sentence, or drawn uniformly if no tokenizer encodes that one.
/// `what` gets a description. Throws as sample_windows does.
at::Tensor tokens_to_check(const ExportOptions& options, const ModelSource& source,
                           const Tokenizer* tokenizer, std::string& what);

}  // namespace penstock
