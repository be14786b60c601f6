// `penstock export`: a model of any source as a file that other programs open, with its
// certificate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/convert/conversion_progress.h"
#include "penstock/convert/export/certificate.h"
#include "penstock/convert/export/export_target.h"
#include "penstock/convert/export/export_tensors.h"
#include "penstock/models/model_source.h"

namespace penstock {

struct ExportOptions {
  std::string model;  ///< what open_model_source opens
  std::string out;    ///< directory, or file.gguf; must not exist
  ExportFormat format = ExportFormat::kHuggingFace;
  std::string architecture;          ///< empty: what fits
  std::optional<ExportDtype> dtype;  ///< nothing: as stored
  bool with_tokenizer = true;        ///< where the model has one
  /// Routers' biases become part of their matrices as well as `sample`, which has to be given,
  /// allows: the verdict is then "fitted".
  bool fit_bias = false;
  std::string sample;  ///< a corpus or a text file to measure on; empty: a sentence of ours
  std::int64_t check_tokens = 256;  ///< 0: nothing is measured
  std::uint64_t shard_bytes = 5'000'000'000;
};

/// Writes the file, reads it back, measures it beside the model and saves the certificate:
/// `certificate.json` in the directory, or `<out>.certificate.json`.
/// Memory: while writing one tensor; while measuring one model at a time, as its file has it.
/// Throws NotPortableError where no architecture computes what the model computes, and Error for
/// what cannot be read, stored or tokenized alike. Then nothing is left behind.
Certificate export_model(const ExportOptions& options, const ConversionProgress& progress = {});

/// Throws Error where there is something of that name, which an export never replaces.
void check_is_new(const std::string& out);

/// Rows [B, T] i64 of tokens to measure on, T at most the model's context: of `options.sample`, a
/// sentence of ours, or where the model has no tokenizer drawn evenly; which it is is put into
/// `what`. Throws as sample_windows does.
at::Tensor tokens_to_check(const ExportOptions& options, const ModelSource& source,
                           const Tokenizer* tokenizer, std::string& what);

}  // namespace penstock
