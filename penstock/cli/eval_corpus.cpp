#include "penstock/cli/eval_corpus.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/base/progress.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/tokenizer_argument.h"
#include "penstock/cli/eval_text.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/cli/run_settings.h"
#include "penstock/eval/by_active.h"
#include "penstock/eval/ngram.h"
#include "penstock/eval/oracle.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/files/same_tokenizer.h"
#include "penstock/models/fold_routers.h"
#include "penstock/report/pages.h"

namespace penstock {
namespace {

void print_totals(const std::string& name, const LossTotals& totals) {
  fmt::print("{:<16} {:>8.4f} {:>10.3f} {:>9.4f} {:>14}\n", name, totals.loss(),
             totals.perplexity(), totals.bits_per_byte(), grouped(totals.tokens));
}

void print_heading() {
  fmt::print("{:<16} {:>8} {:>10} {:>9} {:>14}\n", "domain", "loss", "perplexity", "bits/byte",
             "tokens");
}

void print_by_domain(const Evaluation& evaluation) {
  print_heading();
  for (const auto& [name, totals] : evaluation.by_domain) print_totals(name, totals);
  print_totals("all", evaluation.total);
}

void print_by_k(std::span<const KFigures> points, double own) {
  fmt::print("\n{:>5} {:>8} {:>10} {:>9} {:>14} {:>10} {:>10}\n", "k", "loss", "perplexity",
             "bits/byte", "MFLOP/token", "tokens/s", "memory");
  for (const KFigures& point : points)
    fmt::print("{:>4}{} {:>8.4f} {:>10.3f} {:>9.4f} {:>14.3f} {:>10.0f} {:>6.0f} MiB\n", point.k,
               static_cast<double>(point.k) == own ? "*" : " ", point.loss, point.perplexity,
               point.bits_per_byte, point.flops_per_token / 1e6, point.tokens_per_second,
               point.peak_memory_bytes / (1 << 20));
  fmt::print("k: experts per token, * as trained; FLOPs are useful ones of a forward pass\n");
}

void print_by_active(std::span<const ActiveFigures> points) {
  fmt::print("\n{:>7} {:>8} {:>9} {:>8} {:>10} {:>9} {:>14} {:>10}\n", "experts", "reached",
             "shift", "loss", "perplexity", "bits/byte", "MFLOP/token", "tokens/s");
  for (const ActiveFigures& point : points)
    fmt::print("{:>7} {:>8.4f} {:>9.4f} {:>8.4f} {:>10.3f} {:>9.4f} {:>14.3f} {:>10.0f}\n",
               point.wanted, point.reached, point.shift, point.figures.loss,
               point.figures.perplexity, point.figures.bits_per_byte,
               point.figures.flops_per_token / 1e6, point.figures.tokens_per_second);
  fmt::print("experts: mean per token and MoE layer; shift: of every logit, found on {} tokens\n",
             grouped(points.front().shift_tokens));
}

void print_oracle(const OracleRouting& oracle) {
  fmt::print("\n{:>7} {:>8} {:>8} {:>10}\n", "layer", "loss", "gap", "changed");
  for (const OracleLayer& layer : oracle.layers)
    fmt::print("{:>7} {:>8.4f} {:>8.4f} {:>8.1f} %{}\n", layer.model_layer, layer.total.loss(),
               oracle.own.loss() - layer.total.loss(), 100 * layer.changed,
               layer.exact ? "" : "  at least");
  fmt::print(
      "oracle routing: the best of {} choices of {} experts for each token, in this layer and "
      "those behind it,\non {} tokens whose loss is {:.4f}; it knows the next token, and no "
      "router does\n",
      oracle.choices, oracle.k, grouped(oracle.own.tokens), oracle.own.loss());
}

/// The path of `--plot`, checked before anything is measured.
void check_plot(const EvalCorpusOptions& options) {
  if (options.plot.empty()) return;
  PENSTOCK_CHECK(!options.k.empty(), "--plot draws quality by experts per token; give --k as well");
  PENSTOCK_CHECK(options.plot.ends_with(".html"), "--plot ", options.plot,
                 ": the page is HTML; name a file that ends in .html");
  check_can_write(options.plot);
}

/// The parts of a model that an evaluation needs, read while the files existed.
struct Opened {
  ModelArgument argument;
  std::shared_ptr<LanguageModel> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<Recipe> run;  ///< the recipe of the model's run
};

Opened open_model(const EvalCorpusOptions& options, std::span<const std::int64_t> values,
                  std::span<const double> active) {
  return with_model(options.model, [&](const ModelArgument& argument) {
    const std::shared_ptr<const ModelSource> source = open_model_source(argument.path);
    if (!values.empty()) check_k_values(source->config(), values);
    if (!active.empty()) check_active_values(source->config(), active);
    if (options.oracle) check_oracle(source->config());
    Opened out{.argument = argument, .run = run_settings(argument.path)};
    // The model is loaded first: its errors are reported before a missing tokenizer.
    out.model = load_for_evaluation(source, options.as_trained,
                                    options.fold ? Weights::as_f32 : Weights::in_place);
    out.tokenizer = model_tokenizer(*source, options.tokenizer);
    if (options.fold) out.model = fold_routers(*out.model);
    return out;
  });
}

/// The text that was measured: "test split, windows of 512 tokens".
std::string what_text(const EvaluateOptions& how) {
  std::string out = fmt::format("{} split", split_name(how.split));
  if (how.max_tokens > 0)
    out += fmt::format(", at most {} tokens of it or one window", grouped(how.max_tokens));
  return out + fmt::format(", windows of {} tokens", how.sequence_length);
}

void print_json(const ByK& measured, std::span<const ActiveFigures> by_active,
                const std::optional<OracleRouting>& oracle, const EvalCorpusOptions& options,
                const ModelArgument& model, const ModelConfig& config, const EvaluateOptions& how) {
  auto out = to_json(measured.own);
  for (const KFigures& point : measured.figures) out["by_k"].push_back(to_json(point));
  for (const ActiveFigures& point : by_active) out["by_active_experts"].push_back(to_json(point));
  if (!by_active.empty()) out["shift_tokens"] = by_active.front().shift_tokens;
  if (oracle) out["oracle_routing"] = to_json(*oracle);
  out["model"] = model.path;
  out["folded"] = options.fold;
  out["step"] = model.step ? nlohmann::ordered_json(*model.step) : nlohmann::ordered_json();
  out["split"] = split_name(how.split);
  out["sequence_length"] = how.sequence_length;
  out["max_tokens"] = how.max_tokens;
  if (how.streams > 0) out["streams"] = how.streams;
  if (config.has_memory() && how.streams > 0)
    out["memory_length"] = how.memory_length >= 0 ? how.memory_length : config.xl.memory;
  out["causal"] = config.causal();
  out["by_thresholds"] = config.by_thresholds();
  fmt::print("{}\n", json_text(out, 2));
}

}  // namespace

void run_eval_ngram(const std::string& data, int order, Split split, bool json) {
  const Corpus corpus = Corpus::open(data);
  corpus.file().verify();
  // One stream is the whole split, and every context reaches back to its beginning.
  const LossTotals totals = ngram_baseline(corpus, order, {.split = split, .streams = 1});
  if (!json) {
    fmt::print("{}-gram model (interpolated Kneser-Ney) of {}, {} split\n", order, data,
               split_name(split));
    print_heading();
    print_totals("all", totals);
    return;
  }
  const nlohmann::ordered_json out = {{"ngram", order},
                                      {"split", split_name(split)},
                                      {"loss", totals.loss()},
                                      {"perplexity", totals.perplexity()},
                                      {"bits_per_byte", totals.bits_per_byte()},
                                      {"tokens", totals.tokens}};
  fmt::print("{}\n", json_text(out, 2));
}

void run_eval_corpus(const EvalCorpusOptions& options) {
  check_plot(options);
  std::vector<std::int64_t> values;
  if (options.has_k) values = parse_k_values(options.k);
  std::vector<double> active;
  if (options.has_active) active = parse_active_values(options.active);
  const EndOnSignal guard(kNothingWritten, {temporary_path(options.plot)});
  const auto [argument, model, tokenizer, run] = open_model(options, values, active);
  const ModelConfig& config = model->config();
  const Corpus corpus = Corpus::open(options.data);
  corpus.file().verify();  // else a damaged token would be scored silently
  check_same_tokenizer(*tokenizer, corpus);
  EvaluateOptions how = evaluation_settings(config, run ? &*run : nullptr, options.overrides);
  note_beyond_context(config, how.sequence_length);
  how.context.step = argument.step.value_or(0);  // random choices are drawn by the step
  how.context.total_steps = run ? run->train.steps : 0;
  ProgressLine progress(options.json ? nullptr : stderr);
  const auto show = [&](const std::string& what, double done, const LossTotals& sofar) {
    if (progress.due())
      progress.show(fmt::format("{}{:3.0f}%  loss {:.4f}  bits per byte {:.4f}", what, 100 * done,
                                sofar.loss(), sofar.bits_per_byte()));
  };
  const ByK measured = evaluate_by_k(*model, corpus, how, values,
                                     [&](std::int64_t k, double done, const LossTotals& sofar) {
                                       show(k > 0 ? fmt::format("k={}  ", k) : "", done, sofar);
                                     });
  const auto by_active = evaluate_by_active(
      *model, corpus, how, active, [&](double experts, double done, const LossTotals& sofar) {
        show(fmt::format("{} experts  ", experts), done, sofar);
      });
  std::optional<OracleRouting> oracle;
  if (options.oracle)
    oracle = oracle_routing(*model, corpus, how, [&](double done) {
      if (progress.due()) progress.show(fmt::format("oracle  {:3.0f}%", 100 * done));
    });
  progress.finish();
  check_loss_is_finite(measured.own.total.nats, argument.path, options.data);
  const std::string what = what_text(how);
  if (!options.plot.empty())
    write_file_atomically(real_file_system(), options.plot,
                          report::by_k_page(argument.path, options.data + ", " + what,
                                            measured.figures, config.active_experts()));
  if (options.json) return print_json(measured, by_active, oracle, options, argument, config, how);
  fmt::print("{}{}{}, {}\n", argument.path,
             argument.step ? fmt::format(" (step {})", *argument.step) : "",
             options.fold ? ", routers folded" : "", what);
  print_by_domain(measured.own);
  if (!measured.figures.empty()) print_by_k(measured.figures, config.active_experts());
  if (!by_active.empty()) print_by_active(by_active);
  if (oracle) print_oracle(*oracle);
  if (!options.plot.empty()) fmt::print("plot: {}\n", options.plot);
  print_choice_note(config);
}

}  // namespace penstock
