#include "penstock/cli/eval_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/progress.h"
#include "penstock/cli/model_argument.h"
#include "penstock/cli/output_path.h"
#include "penstock/cli/tokenizer_argument.h"
#include "penstock/data/vocabulary.h"
#include "penstock/eval/text.h"
#include "penstock/models/fold_routers.h"
#include "penstock/models/model_directory.h"

namespace penstock {
namespace {

/// Sums over the scored tokens, and a line of each where they are kept.
class TextTotals {
 public:
  TextTotals(const Tokenizer& tokenizer, bool keep)
      : bytes_(tokenizer.token_bytes()), keep_(keep) {}

  void add(const ScoredToken& token) {
    totals_.nats -= token.log_probability;
    totals_.tokens += 1;
    if (static_cast<std::size_t>(token.id) < bytes_.size())
      totals_.bytes += bytes_[static_cast<std::size_t>(token.id)];
    if (keep_)
      lines_ += fmt::format(
          "{{\"window\": {}, \"position\": {}, \"id\": {}, \"log_probability\": {:.9g}}}\n",
          token.window, token.position, token.id, token.log_probability);
  }
  /// For a space that encoding added.
  void take_byte() { totals_.bytes -= 1; }
  const LossTotals& totals() const { return totals_; }
  const std::string& lines() const { return lines_; }

 private:
  std::vector<std::int32_t> bytes_;
  bool keep_;
  LossTotals totals_;
  std::string lines_;
};

}  // namespace

void note_beyond_context(const ModelConfig& config, std::int64_t length) {
  if (config.transformer_xl() || config.context <= 0 || length <= config.context) return;
  fmt::print(stderr, "note: windows of {} tokens are longer than the model's context of {}\n",
             length, config.context);
}

void run_eval_text(const EvalTextOptions& options) {
  const TextProtocol protocol = parse_text_protocol(options.protocol);
  const std::string text = real_file_system().read(options.text);
  PENSTOCK_CHECK(!text.empty(), options.text, ": is empty; there is nothing to score");
  if (!options.per_token.empty()) check_overwrites_no_input(options.per_token, options.text);
  check_can_write(options.per_token);
  const auto [argument, tokenizer, loaded] =
      with_model(options.model, [&](const ModelArgument& chosen) {
        const auto source = open_model_source(chosen.path);
        return std::tuple(chosen, model_tokenizer(*source, options.tokenizer), load_model(*source));
      });
  const auto& [directory, step] = argument;
  const auto model = options.fold ? fold_routers(*loaded) : loaded;
  const ModelConfig& config = model->config();
  const std::int64_t length = options.length > 0 ? options.length : config.context;
  PENSTOCK_CHECK(length > 0, directory,
                 ": the model names no context length; give --sequence-length");
  note_beyond_context(config, length);

  const auto vocabulary = tokenizer->vocabulary();
  const TokenId bos = vocabulary && vocabulary->add_bos ? vocabulary->bos : -1;
  const auto windows = text_windows(tokenizer->encode(text), bos, length, protocol);
  TextTotals sums(*tokenizer, !options.per_token.empty());
  ProgressLine progress(options.json ? nullptr : stderr);
  score_text(*model, windows, [&](const ScoredToken& token) {
    sums.add(token);
    if (progress.due())
      progress.show(fmt::format("window {} of {}  loss {:.4f}", token.window + 1, windows.size(),
                                sums.totals().loss()));
  });
  progress.finish();
  if (tokenizer->drops_first_space() && bos >= 0 && windows.front().first_scored == 0)
    sums.take_byte();
  const LossTotals& totals = sums.totals();
  PENSTOCK_CHECK(std::isfinite(totals.nats), directory, ": the loss on ", options.text,
                 " is not finite though every weight is: the model's activations overflow");
  if (!options.per_token.empty())
    write_file_atomically(real_file_system(), options.per_token, sums.lines());
  if (!options.json) {
    fmt::print("{}{}, {}: {} windows of {} tokens, protocol {}\n", directory,
               options.fold ? ", routers folded" : "", options.text, windows.size(), length,
               options.protocol);
    fmt::print("loss {:.4f}, perplexity {:.4f}, bits per byte {:.4f}, {} tokens scored\n",
               totals.loss(), totals.perplexity(), totals.bits_per_byte(), grouped(totals.tokens));
    if (!config.causal())
      fmt::print("note: method '{}' is not causal: {}\n", config.router.method, kNotCausal);
    return;
  }
  const nlohmann::ordered_json out = {
      {"loss", totals.loss()},
      {"perplexity", totals.perplexity()},
      {"bits_per_byte", totals.bits_per_byte()},
      {"tokens", totals.tokens},
      {"log_probability_sum", -totals.nats},
      {"model", directory},
      {"folded", options.fold},
      {"step", step ? nlohmann::ordered_json(*step) : nlohmann::ordered_json()},
      {"text", options.text},
      {"protocol", options.protocol},
      {"windows", windows.size()},
      {"sequence_length", length},
      {"causal", config.causal()}};
  fmt::print("{}\n", out.dump(2));
}

}  // namespace penstock
