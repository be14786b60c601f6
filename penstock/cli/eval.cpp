#include "penstock/cli/eval.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/cli/end_on_signal.h"
#include "penstock/cli/eval_text.h"
#include "penstock/cli/model_argument.h"
#include "penstock/cli/output_path.h"
#include "penstock/cli/run_settings.h"
#include "penstock/cli/tokenizer_argument.h"
#include "penstock/cli/whole_number.h"
#include "penstock/eval/by_k.h"
#include "penstock/eval/ngram.h"
#include "penstock/models/fold_routers.h"
#include "penstock/models/model_directory.h"
#include "penstock/models/same_tokenizer.h"
#include "penstock/ops/dispatch.h"
#include "penstock/study/by_k_charts.h"

namespace penstock {
namespace {

struct EvalOptions {
  std::string model, data, split = "validation", k, plot, tokenizer;
  std::int64_t max_tokens = 0, length = 0, threads = 0, streams = -1, memory = -1, ngram = 0;
  bool json = false, isolate = false, fold = false, has_k = false;
};

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

/// What `--plot` was given, checked before anything is measured.
void check_plot(const EvalOptions& options) {
  if (options.plot.empty()) return;
  PENSTOCK_CHECK(!options.k.empty(), "--plot draws quality by experts per token; give --k as well");
  PENSTOCK_CHECK(options.plot.ends_with(".html"), "--plot ", options.plot,
                 ": the page is HTML; name a file that ends in .html");
  check_can_write(options.plot);
}

/// All of a model that an evaluation needs, read while its files were there.
struct Opened {
  ModelArgument argument;
  std::shared_ptr<LanguageModel> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<Recipe> run;  ///< that it is of
};

Opened open_model(const EvalOptions& options, std::span<const std::int64_t> values) {
  return with_model(options.model, [&](const ModelArgument& argument) {
    const auto source = open_model_source(argument.path);
    if (!values.empty()) check_k_values(source->config(), values);
    Opened out{.argument = argument, .run = run_settings(argument.path)};
    out.model = load_model(*source);  // first: what is wrong with it is said before what it lacks
    out.tokenizer = model_tokenizer(*source, options.tokenizer);
    if (options.fold) out.model = fold_routers(*out.model);
    return out;
  });
}

struct Measured {
  Evaluation own;  ///< with the model's own number of experts
  std::vector<KFigures> by_k;
};

Measured measure(LanguageModel& model, const Corpus& corpus, EvaluateOptions how,
                 std::span<const std::int64_t> values, ProgressLine& progress) {
  const auto show = [&](std::int64_t k) {
    return [&, k](double done, const LossTotals& totals) {
      if (progress.due())
        progress.show(fmt::format("{}{:3.0f}%  loss {:.4f}  bits per byte {:.4f}",
                                  k > 0 ? fmt::format("k={}  ", k) : "", 100 * done, totals.loss(),
                                  totals.bits_per_byte()));
    };
  };
  Measured out;
  bool has_own = false;
  for (const std::int64_t k : values) {
    how.progress = show(k);
    KPoint point = evaluate_at_k(model, corpus, how, k);
    out.by_k.push_back(point.figures);
    if (static_cast<double>(k) != model.config().active_experts()) continue;
    out.own = std::move(point.evaluation);
    has_own = true;
  }
  how.progress = show(0);
  if (!has_own) out.own = evaluate(model, corpus, how);
  progress.finish();
  return out;
}

void run_ngram(const EvalOptions& options) {
  const Corpus corpus = Corpus::open(options.data);
  corpus.file().verify();
  const LossTotals totals =
      ngram_baseline(corpus, static_cast<int>(options.ngram), parse_split(options.split));
  if (!options.json) {
    fmt::print("{}-gram model (interpolated Kneser-Ney) of {}, {} split\n", options.ngram,
               options.data, options.split);
    print_heading();
    print_totals("all", totals);
    return;
  }
  const nlohmann::ordered_json out = {{"ngram", options.ngram},
                                      {"split", options.split},
                                      {"loss", totals.loss()},
                                      {"perplexity", totals.perplexity()},
                                      {"bits_per_byte", totals.bits_per_byte()},
                                      {"tokens", totals.tokens}};
  fmt::print("{}\n", out.dump(2));
}

void run_eval(const EvalOptions& options) {
  ops::set_threads(static_cast<int>(options.threads));
  check_plot(options);
  std::vector<std::int64_t> values;
  if (options.has_k) values = parse_k_values(options.k);
  const EndOnSignal guard("interrupted; nothing was written", {temporary_path(options.plot)});
  const auto [argument, model, tokenizer, run] = open_model(options, values);
  const auto& [directory, step] = argument;
  const ModelConfig& config = model->config();
  const Corpus corpus = Corpus::open(options.data);
  corpus.file().verify();  // a flipped token would be scored silently
  check_same_tokenizer(*tokenizer, corpus);
  ProgressLine progress(options.json ? nullptr : stderr);
  // A run's recipe says how it is evaluated; finished.json's figures come out again.
  const TrainConfig said = run ? run->train : TrainConfig{};
  const auto first_of = [](std::int64_t asked, std::int64_t of_run, std::int64_t usual,
                           std::int64_t unset) {
    return asked > unset ? asked : (of_run > unset ? of_run : usual);
  };
  const bool carries = config.transformer_xl();
  const std::int64_t length =
      first_of(options.length, said.eval_sequence_length, config.context, 0);
  PENSTOCK_CHECK(length > 0, options.model,
                 ": the model names no context length; give --sequence-length");
  note_beyond_context(config, length);
  const std::int64_t streams = first_of(options.streams, said.eval_streams, carries ? 10 : 0, -1);
  PENSTOCK_CHECK(options.memory < 0 || (carries && streams > 0), "--memory ", options.memory,
                 " has no effect here: memory is carried ",
                 carries ? "along streams, and --streams is 0" : "by transformer-xl alone");
  const std::int64_t memory = carries ? first_of(options.memory, said.eval_memory, -1, -1) : -1;
  RoutingContext context;  // what random choices are drawn by
  context.step = step.value_or(0);
  context.total_steps = run ? said.steps : 0;
  const Measured measured =
      measure(*model, corpus,
              {.split = parse_split(options.split),
               .sequence_length = length,
               // As the run has it, for experts of limited room are filled batch by batch; but its
               // batch is one of its own windows.
               .batch_sequences = said.micro_batch > 0 && options.length == 0
                                      ? said.micro_batch
                                      : std::max<std::int64_t>(1, 4096 / length),
               .max_tokens = options.max_tokens,
               .isolate_documents = options.isolate || (run && run->data.isolate_documents),
               .streams = streams,
               .memory_length = memory,
               .context = context},
              values, progress);
  PENSTOCK_CHECK(std::isfinite(measured.own.total.nats), directory, ": the loss on ", options.data,
                 " is not finite though every weight is: the model's activations overflow");
  const std::string what = fmt::format("{} split, windows of {} tokens", options.split, length);
  if (!options.plot.empty())
    write_file_atomically(real_file_system(), options.plot,
                          study::by_k_page(directory, options.data + ", " + what, measured.by_k,
                                           config.active_experts()));
  if (options.json) {
    auto out = to_json(measured.own);
    for (const KFigures& point : measured.by_k) out["by_k"].push_back(to_json(point));
    out["model"] = directory;
    out["folded"] = options.fold;
    out["step"] = step ? nlohmann::ordered_json(*step) : nlohmann::ordered_json();
    out["split"] = options.split;
    out["sequence_length"] = length;
    if (streams > 0) out["streams"] = streams;
    if (carries && streams > 0) out["memory_length"] = memory >= 0 ? memory : config.xl.memory;
    out["causal"] = config.causal();
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print("{}{}{}, {}\n", directory, step ? fmt::format(" (step {})", *step) : "",
             options.fold ? ", routers folded" : "", what);
  print_by_domain(measured.own);
  if (!measured.by_k.empty()) print_by_k(measured.by_k, config.active_experts());
  if (!options.plot.empty()) fmt::print("plot: {}\n", options.plot);
  if (!config.causal())
    fmt::print("note: method '{}' is not causal: {}\n", config.router.method, kNotCausal);
}

void run_text(const EvalOptions& options, EvalTextOptions text) {
  ops::set_threads(static_cast<int>(options.threads));
  text.model = options.model;
  text.length = options.length;
  text.json = options.json;
  text.fold = options.fold;
  text.tokenizer = options.tokenizer;
  const EndOnSignal guard("interrupted; nothing was written", {temporary_path(text.per_token)});
  run_eval_text(text);
}

struct TextArguments {
  std::shared_ptr<EvalTextOptions> options;
  CLI::Option* file;
};

/// --text and what belongs to it alone.
TextArguments add_text_options(CLI::App& command) {
  auto options = std::make_shared<EvalTextOptions>();
  CLI::Option* file = command.add_option(
      "--text", options->text, "in place of a corpus: a file of text, in the model's own tokens");
  command
      .add_option("--protocol", options->protocol,
                  "with --text: windows, one after another, or llama-perplexity, which scores the "
                  "second half of each whole window")
      ->needs(file)
      ->capture_default_str();
  command
      .add_option("--per-token", options->per_token,
                  "with --text: a file to write each scored token's id and log-probability to, "
                  "one JSON object a line")
      ->needs(file);
  return {options, file};
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command =
      app.add_subcommand("eval", "Loss, perplexity and bits per byte on a corpus or a text");
  CLI::Option* model = command->add_option(
      "MODEL", options->model,
      "model (directory, llama2.c .bin or .gguf), or run directory (its best checkpoint)");
  CLI::Option* ngram =
      command
          ->add_option(
              "--ngram", options->ngram,
              "in place of MODEL: an n-gram model of this order, counted on the train split")
          ->check(whole_number(1, kMostNgramOrder))
          ->excludes(model);
  CLI::Option* data = command->add_option("--data", options->data, "corpus directory");
  command->add_option("--split", options->split, "train, validation or test")
      ->capture_default_str();
  command
      ->add_option("--max-tokens", options->max_tokens,
                   "evenly spaced windows up to this many tokens; 0: all")
      ->check(whole_number(0));
  command
      ->add_option("--sequence-length", options->length,
                   "tokens per window; 0: as the run was evaluated, or the model's context")
      ->check(whole_number(0));
  command
      ->add_option(
          "--streams", options->streams,
          "cut the split into so many streams and carry memory along each; 0: windows with "
          "nothing before them; default: as the run was evaluated, or 10 for transformer-xl, else "
          "0")
      ->check(whole_number(0));
  command
      ->add_option("--memory", options->memory,
                   "positions of memory (transformer-xl); default: as the run was evaluated, or "
                   "the model's")
      ->check(whole_number(0));
  command->add_option("--threads", options->threads, "0: the physical cores")
      ->check(whole_number(0, kMostThreads));
  command->add_option("--k", options->k,
                      "measure with each of these numbers of experts per token (granularity "
                      "applied): --k 1,2,4,8,16; quality, FLOPs, speed and memory of each");
  command->add_option("--plot", options->plot,
                      "with --k: a page that draws quality against k and FLOPs (.html)");
  command->add_option("--tokenizer", options->tokenizer,
                      "in place of the model's own: a tokenizer's file or folder, or a model that "
                      "has it");
  command->add_flag("--fold", options->fold,
                    "measure the model with each router folded into one matrix and bias");
  command->add_flag("--isolate-documents", options->isolate,
                    "attention does not cross document borders");
  command->add_flag("--json", options->json, "one JSON object");
  const auto text = add_text_options(*command);
  text.file->excludes(data)->excludes(ngram);
  for (const char* of_models :
       {"--max-tokens", "--sequence-length", "--streams", "--memory", "--k", "--plot", "--fold",
        "--isolate-documents", "--threads", "--tokenizer"})
    ngram->excludes(command->get_option(of_models));
  for (const char* of_corpora :
       {"--split", "--max-tokens", "--streams", "--memory", "--k", "--plot", "--isolate-documents"})
    text.file->excludes(command->get_option(of_corpora));
  command->footer(
      "Examples:\n"
      "  penstock eval runs/remoe --data corpus\n"
      "  penstock eval runs/remoe/checkpoints/step-200 --data corpus --split test --json\n"
      "  penstock eval runs/hyperrouter --data enwik8 --sequence-length 128 --memory 896 \\\n"
      "      --k 1,2,4,8,16 --plot by-k.html\n"
      "  penstock eval runs/hyperrouter --data enwik8 --fold\n"
      "  penstock eval --ngram 5 --data enwik8 --split test\n"
      "  penstock eval runs/remoe --text notes.txt --sequence-length 512 --per-token scores.jsonl\n"
      "--k overrides the k and the schedule that the model was trained with; without it the final\n"
      "k holds. "
      "It is for models whose tokens ask for the experts of their k highest logits.");
  const CLI::Option* const k = command->get_option("--k");
  command->callback([options, text, data, k] {
    options->has_k = k->count() > 0;  // an empty one is a mistake
    if (text.file->count() > 0) {
      if (options->model.empty()) throw CLI::RequiredError("MODEL");
      return run_text(*options, *text.options);
    }
    if (data->count() == 0) throw CLI::RequiredError("--data or --text");
    if (options->ngram > 0) return run_ngram(*options);
    if (options->model.empty()) throw CLI::RequiredError("MODEL");
    run_eval(*options);
  });
}

}  // namespace penstock
