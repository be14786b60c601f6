#include "penstock/convert/export/export_model.h"

#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/json_text.h"
#include "penstock/base/links.h"
#include "penstock/base/new_folders.h"
#include "penstock/convert/export/export_choice.h"
#include "penstock/convert/export/export_gguf.h"
#include "penstock/convert/export/export_hugging_face.h"
#include "penstock/convert/export/fit_bias.h"
#include "penstock/convert/export/input_squares.h"
#include "penstock/convert/export/portable_source.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/data/vocabulary.h"
#include "penstock/models/embedding_and_head_names.h"
#include "penstock/models/files/chat_template.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/files/stored_model.h"
#include "penstock/models/formats/gguf_tokenizer.h"

namespace penstock {
namespace {

constexpr std::int64_t kBiasTokens = 16384;  // tokens for fitting biases

/// The model's tokenizer. If it is null, the notes have the reason.
std::shared_ptr<const Tokenizer> tokenizer_of(const ModelSource& source,
                                              const ExportOptions& options,
                                              std::vector<std::string>& notes) {
  if (!options.with_tokenizer) return nullptr;
  try {
    return source.tokenizer();
  } catch (const Error& error) {
    notes.push_back(concat("without a tokenizer: ", error.what()));
    return nullptr;
  }
}

GgufTokenizer gguf_keys(const Tokenizer* tokenizer, const ExportTarget& target,
                        const std::string& chat_template) {
  if (!tokenizer)
    return no_gguf_tokenizer(std::string(target.architecture->gguf.name), target.config.vocab);
  const auto vocabulary = tokenizer->vocabulary();
  PENSTOCK_CHECK(
      vocabulary, "the tokenizer '", tokenizer->spec(),
      "' has no counterpart in llama.cpp; export without it (`penstock export --tokenizer none`)");
  GgufTokenizer out = gguf_tokenizer(*vocabulary, target.config.vocab);
  if (!chat_template.empty())
    out.metadata.emplace_back(kGgufChatTemplate, GgufValue::string(chat_template));
  return out;
}

/// Adds a note if a tokenizer.json made from a vocabulary cuts text differently.
void note_hugging_face_tokenizer(const Tokenizer* tokenizer, std::vector<std::string>& notes) {
  const auto vocabulary = tokenizer ? tokenizer->vocabulary() : std::nullopt;
  const std::string difference = vocabulary ? difference_after_pieces(*vocabulary) : "";
  if (!difference.empty()) notes.push_back(difference + " (Hugging Face's tokenizers)");
}

std::string routers_text(const ModelConfig& config) {
  if (config.moe_layers() == 0) return "none, the model is dense";
  const ResolvedRouter router = resolve(config.router);
  return router.traits.one_matrix ? "one matrix, as they were"
                                  : "'" + router.scorer + "' folded to one matrix";
}

std::filesystem::path certificate_path(const ExportOptions& options) {
  if (options.format == ExportFormat::kHuggingFace)
    return std::filesystem::path(options.out) / "certificate.json";
  return options.out + ".certificate.json";
}

/// Throws Error for fits that have nothing to fit, or no text to fit on.
void check_fits(const ExportOptions& options, const ModelSource& source, ExportDtype dtype) {
  const bool gguf = options.format == ExportFormat::kGguf;
  if (options.fit_bias) {
    PENSTOCK_CHECK(!options.sample.empty(),
                   "options.fit_bias: give the text, or the corpus, to fit on");
    PENSTOCK_CHECK(source.config().moe_layers() > 0 && routers_add_biases(source),
                   "options.fit_bias: the model's routers add no bias; leave it out");
  }
  if (options.importance_tokens > 0) {
    PENSTOCK_CHECK(gguf && is_fitted(dtype),
                   "options.importance_tokens: only the scales of q4_k and q6_k ",
                   "are fitted; give options.dtype q4_k or q6_k and the format gguf");
    PENSTOCK_CHECK(!options.sample.empty(),
                   "options.importance_tokens: give the text, or the corpus, to fit on");
  }
}

/// Throws Error for a size of weight files where the format has one file.
void check_files(const ExportOptions& options) {
  PENSTOCK_CHECK(
      options.format != ExportFormat::kGguf || options.shard_size == ExportOptions().shard_size,
      "options.shard_size: a GGUF file holds the whole model; leave it out");
}

/// Windows to fit on; none if nothing is fitted. `measured` becomes other windows of the same text,
/// so that no measurement uses windows of the fit.
at::Tensor windows_to_fit(const ExportOptions& options, const ModelSource& source,
                          at::Tensor& measured) {
  const std::int64_t tokens =
      std::max(options.fit_bias ? kBiasTokens : 0, options.importance_tokens);
  if (tokens == 0) return {};
  const std::int64_t length = measured.defined() ? measured.size(1) : 0;
  const at::Tensor windows = sample_windows(
      options.sample, source, {.tokens = tokens + options.check_tokens, .length = length});
  if (!measured.defined()) return windows;
  const std::int64_t kept = std::min(measured.size(0), windows.size(0) / 2);
  PENSTOCK_CHECK(kept > 0, options.fit_bias ? "options.fit_bias: " : "options.importance_tokens: ",
                 options.sample,
                 " is too short to fit on one part of it and to measure on another");
  measured = windows.slice(0, 0, kept).clone();
  return windows.slice(0, kept);
}

/// The vectors that fit the routers' biases into their matrices, if that was asked for; otherwise
/// empty.
std::vector<at::Tensor> fitted_ones(const ExportOptions& options, const at::Tensor& windows,
                                    Certificate& certificate) {
  if (!options.fit_bias) return {};
  const CommonDirections common = common_directions(*open_model(open_model_source(options.model)),
                                                    some_windows(windows, kBiasTokens));
  certificate.verdict = ExportVerdict::fitted;
  certificate.routers += ", with its bias fitted into it";
  certificate.notes.push_back(concat(
      "the routers' biases became b * v^T in their matrices, with x * v = 1 +- ", common.residual,
      " over ", common.tokens, " tokens of ", options.sample, "; the file is measured on others"));
  return common.ones;
}

/// The weights of errors in the columns of the target's matrices, if these were asked for.
ColumnWeights importance_matrix(const ExportOptions& options, const ModelSource& source,
                                const ModelConfig& target, const at::Tensor& windows,
                                std::vector<std::string>& notes,
                                const ConversionProgress& progress) {
  if (options.importance_tokens <= 0) return {};
  const at::Tensor read = some_windows(windows, options.importance_tokens);
  const auto squares = input_squares(*load_model(source), read, progress);
  ColumnWeights out;
  for (const auto& [name, own] : squares)
    if (std::vector<float> weights = column_weights(own); !weights.empty())
      out.emplace(name, std::move(weights));
  notes.push_back(concat("errors of q4_k and q6_k weigh as the squares of inputs over ",
                         read.numel(), " tokens of ", options.sample,
                         options.check_tokens > 0 ? "; the file is measured on others" : ""));
  if (out.size() < squares.size())
    notes.push_back(concat(squares.size() - out.size(), " of ", squares.size(),
                           " matrices met too few of these tokens: their errors weigh alike"));
  if (source.config().tie_embeddings && !target.tie_embeddings)
    if (auto head = out.extract(kEmbeddingsTensor); head) {
      // The head gets the weights. Embedding lookups multiply rows with nothing, so they need none.
      head.key() = kHeadTensor;
      out.insert(std::move(head));
    }
  return out;
}

/// Throws if the file's logits differ by more than rounding explains. With numbers of 8 bits or
/// more, rounding gives differences of some hundredths. A difference of half the largest logit,
/// with the same experts, means another model. With fewer bits, the difference depends on the
/// model, so there is no check.
void check_agreement(const Certificate& certificate, ExportDtype dtype) {
  if (certificate.verdict != ExportVerdict::exact || is_fitted(dtype)) return;
  const Agreement& a = certificate.agreement;
  const double allowed = certificate.rounded ? 0.5 : 1e-3;
  const bool wrong = !(a.max_logit_difference <= allowed * a.largest_logit + 1e-6);
  // If a near tie chose another expert, that expert's output may explain any difference.
  const bool other_experts =
      a.same_experts < 1 && (certificate.rounded || a.differ_beyond_ties == 0);
  if (other_experts || !wrong) return;
  assertion_failed("an exact export gives the model's logits",
                   concat("largest difference ", a.max_logit_difference, " of ", a.largest_logit));
}

/// Compares the file with the model on these tokens.
void measure(const ExportOptions& options, const at::Tensor& tokens, Certificate& certificate,
             const ConversionProgress& progress) {
  tell(progress, "measuring", 0);
  const Observed ours = observe(*open_model(open_model_source(options.model)), tokens);
  tell(progress, "measuring", 0.5);
  const Observed theirs = observe(*open_model(open_model_source(options.out)), tokens);
  certificate.agreement = compare(ours, theirs);
  check_agreement(certificate, certificate.dtype);
}

}  // namespace

void check_is_new(const std::string& out) {
  std::error_code none;  // a path that cannot be read counts as absent
  PENSTOCK_CHECK(!std::filesystem::exists(out, none), out,
                 ": is there already; name another file, or remove it");
}

Certificate export_model(const ExportOptions& options, const ConversionProgress& progress) {
  check_is_new(options.out);
  const bool gguf = options.format == ExportFormat::kGguf;
  PENSTOCK_CHECK(!gguf || options.out.ends_with(".gguf"), options.out,
                 ": name a file that ends in .gguf");
  check_files(options);
  const auto source = open_model_source(options.model);
  ExportTarget target =
      choose_export_target(source->config(), options.format, options.architecture);
  const ExportDtype dtype = options.dtype.value_or(stored_dtype(*source));
  // Keeps the gate's F16 values at 2^-24 or more.
  if (!gguf && dtype == ExportDtype::kF16) target.gate_of_none = 0x1p-18;
  Certificate out{.format = options.format,
                  .architecture = std::string(target.architecture->name),
                  .path = options.out,
                  .routers = routers_text(source->config())};
  if (!target.note.empty()) out.notes.push_back(target.note);
  const auto tokenizer = tokenizer_of(*source, options, out.notes);
  at::Tensor tokens;
  if (options.check_tokens > 0)
    tokens = tokens_to_check(options, *source, tokenizer.get(), out.tokens);
  check_fits(options, *source, dtype);
  const at::Tensor windows = windows_to_fit(options, *source, tokens);
  const std::vector<at::Tensor> ones = fitted_ones(options, windows, out);
  const PortableSource made_portable(*source, target, ones);
  const ColumnWeights weights =
      importance_matrix(options, *source, target.config, windows, out.notes, progress);
  const WatchedSource portable(made_portable, "writing", progress);
  const NewFolders folders(real_file_system(), parent_directory(followed(options.out)));
  clean_leftovers_of(real_file_system(), options.out);
  Exported written;
  if (gguf) {
    const GgufTokenizer keys =
        gguf_keys(tokenizer.get(), target, chat_template_of(source->origin()));
    out.notes.insert(out.notes.end(), keys.notes.begin(), keys.notes.end());
    written = export_gguf(real_file_system(), portable, target, dtype, keys.metadata, options.out,
                          weights);
  } else {
    const auto shard_bytes = static_cast<std::uint64_t>(std::llround(options.shard_size * 1e9));
    written = export_hugging_face(real_file_system(), portable, target, dtype, shard_bytes,
                                  tokenizer.get(), options.out);
    note_hugging_face_tokenizer(tokenizer.get(), out.notes);
  }
  out.dtype = written.dtype;
  if (written.dtype != dtype) out.asked_dtype = dtype;
  out.rounded = written.rounded;
  out.notes.insert(out.notes.end(), written.notes.begin(), written.notes.end());
  try {
    if (tokens.defined()) measure(options, tokens, out, progress);
    write_file_atomically(real_file_system(), certificate_path(options),
                          json_text(to_json(out), 2) + "\n");
  } catch (...) {  // no file is left without its certificate
    std::filesystem::remove_all(followed(options.out));
    throw;
  }
  return out;
}

}  // namespace penstock
