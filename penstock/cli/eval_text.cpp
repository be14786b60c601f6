#include "penstock/cli/eval_text.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/json_text.h"
#include "penstock/base/named_word.h"
#include "penstock/base/number_text.h"
#include "penstock/base/progress.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/tokenizer_argument.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/data/utf8.h"
#include "penstock/eval/text_windows.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/files/stored_model.h"
#include "penstock/models/fold_routers.h"

namespace penstock {
namespace {

/// Writes one line with a JSON object for each scored token.
std::string per_token_lines(std::span<const TokenSequence> windows,
                            std::span<const std::vector<double>> scores) {
  std::string out;
  for (std::size_t w = 0; w < windows.size(); ++w)
    for (std::size_t i = 0; i < scores[w].size(); ++i) {
      const std::size_t position = static_cast<std::size_t>(windows[w].first_scored) + i;
      out += fmt::format(
          "{{\"window\": {}, \"position\": {}, \"id\": {}, \"log_probability\": {:.9g}}}\n", w,
          position, windows[w].ids[position], scores[w][i]);
    }
  return out;
}

/// The model that scores, with the number of tokens of its windows.
struct ModelToScore {
  std::string directory;
  std::optional<std::int64_t> step;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<LanguageModel> model;
  std::int64_t length = 0;
};

/// Tells that a text is not UTF-8, such as one in UTF-16. It is scored all the same.
void note_broken_utf8(const std::string& name, std::string_view text) {
  const auto offset = find_invalid_utf8(text);
  if (offset == text.npos) return;
  print_line(stderr, fmt::format("note: {} is not UTF-8 (byte 0x{:02x} at offset {}); text in "
                                 "another encoding has to be converted first, with iconv",
                                 name, static_cast<unsigned char>(text[offset]), offset));
}

ModelToScore load_to_score(const EvalTextOptions& options) {
  const Weights weights = options.fold   ? Weights::as_f32
                          : options.int8 ? Weights::in_place_int8
                                         : Weights::in_place;
  ModelToScore out = with_model(options.model, [&](const ModelArgument& chosen) {
    const std::shared_ptr<const ModelSource> source = open_model_source(chosen.path);
    return ModelToScore{.directory = chosen.path,
                        .step = chosen.step,
                        .tokenizer = model_tokenizer(*source, options.tokenizer),
                        .model = load_for_evaluation(source, options.as_trained, weights)};
  });
  if (options.fold) out.model = fold_routers(*out.model);
  const ModelConfig& config = out.model->config();
  out.length = options.length > 0 ? options.length : config.context;
  PENSTOCK_CHECK(out.length > 0, out.directory,
                 ": the model names no context length; give --sequence-length");
  PENSTOCK_CHECK(!options.int8 || !options.fold,
                 "--int8 reads weights as the file stores them, and --fold expands them; leave one "
                 "of the two out");
  note_beyond_context(config, out.length);
  return out;
}

ScoredText score(const ModelToScore& model, const std::string& text, TextProtocol protocol,
                 const EvalTextOptions& options) {
  ProgressLine progress(options.json ? nullptr : stderr);
  ScoredText out =
      score_text(*model.model, *model.tokenizer, text,
                 {.name = options.text,
                  .length = model.length,
                  .protocol = protocol,
                  .progress = [&](double done, const LossTotals& sofar) {
                    if (progress.due())
                      progress.show(fmt::format("{:3.0f}%  loss {:.4f}", 100 * done, sofar.loss()));
                  }});
  progress.finish();
  check_loss_is_finite(out.totals.nats, model.directory, options.text);
  return out;
}

void print(const ModelToScore& model, const ScoredText& text, const EvalTextOptions& options) {
  const LossTotals& totals = text.totals;
  fmt::print("{}{}, {}: {} of {} tokens, protocol {}\n", model.directory,
             options.fold ? ", routers folded" : "", options.text,
             count_text(std::ssize(text.windows), "window"), model.length, options.protocol);
  fmt::print("loss {:.4f}, perplexity {:.4f}, bits per byte {:.4f}, {} tokens scored\n",
             totals.loss(), totals.perplexity(), totals.bits_per_byte(), grouped(totals.tokens));
  print_choice_note(model.model->config());
}

nlohmann::ordered_json json_of(const ModelToScore& model, const ScoredText& text,
                               const EvalTextOptions& options) {
  const LossTotals& totals = text.totals;
  const ModelConfig& config = model.model->config();
  return {{"loss", totals.loss()},
          {"perplexity", totals.perplexity()},
          {"bits_per_byte", totals.bits_per_byte()},
          {"tokens", totals.tokens},
          {"log_probability_sum", -totals.nats},
          {"model", model.directory},
          {"folded", options.fold},
          {"step", model.step ? nlohmann::ordered_json(*model.step) : nlohmann::ordered_json()},
          {"text", options.text},
          {"protocol", options.protocol},
          {"windows", text.windows.size()},
          {"sequence_length", model.length},
          {"causal", config.causal()},
          {"by_thresholds", config.by_thresholds()}};
}

}  // namespace

void print_choice_note(const ModelConfig& config) {
  if (const std::string note = choice_note(config); !note.empty()) fmt::print("note: {}\n", note);
}

void note_beyond_context(const ModelConfig& config, std::int64_t length) {
  if (config.has_memory() || config.context <= 0 || length <= config.context) return;
  print_line(stderr,
             fmt::format("note: windows of {} tokens are longer than the model's context of {}",
                         length, config.context));
}

void check_loss_is_finite(double loss, const std::string& model, const std::string& data) {
  if (std::isfinite(loss)) return;
  check_finite(*open_model_source(model));
  fail(model, ": the loss on ", data,
       " is not finite though every weight is: the model's activations overflow");
}

void run_eval_text(const EvalTextOptions& options) {
  const auto protocol = named_word<TextProtocol>(options.protocol, "--protocol");
  const std::string text = real_file_system().read(options.text);
  PENSTOCK_CHECK(!text.empty(), options.text, ": is empty; there is nothing to score");
  note_broken_utf8(options.text, text);
  if (!options.per_token.empty())
    for (const std::string& read : {options.text, options.model})
      check_overwrites_no_input(options.per_token, read);
  check_can_write(options.per_token);
  const EndOnSignal guard(kNothingWritten, {temporary_path(options.per_token)});
  const ModelToScore model = load_to_score(options);
  const ScoredText found = score(model, text, protocol, options);
  if (!options.per_token.empty())
    write_file_atomically(real_file_system(), options.per_token,
                          per_token_lines(found.windows, found.scores));
  if (options.json)
    fmt::print("{}\n", json_text(json_of(model, found, options), 2));
  else
    print(model, found, options);
}

}  // namespace penstock
