// Command line of `penstock eval`.
#include "penstock/cli/eval.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "penstock/cli/eval_corpus.h"
#include "penstock/cli/eval_text.h"
#include "penstock/cli/tokenizer_argument.h"
#include "penstock/cli/whole_number.h"
#include "penstock/eval/ngram.h"
#include "penstock/ops/dispatch.h"

namespace penstock {
namespace {

struct EvalArguments {
  EvalCorpusOptions corpus;
  EvalTextOptions text;
  std::string model, split = "validation", tokenizer;
  std::int64_t max_tokens = 0, length = 0, streams = 0, memory = 0, threads = 0, ngram = 0;
  bool json = false, fold = false;
};

void run_eval(const CLI::App& command, EvalArguments a) {
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  if (!given("--data") && !given("--text")) throw CLI::RequiredError("--data or --text");
  if (a.ngram > 0)
    return run_eval_ngram(a.corpus.data, static_cast<int>(a.ngram), parse_split(a.split), a.json);
  if (a.model.empty()) throw CLI::RequiredError("MODEL");
  ops::set_threads(static_cast<int>(a.threads));
  if (given("--text")) {
    a.text.model = a.model;
    a.text.tokenizer = a.tokenizer;
    a.text.length = a.length;
    a.text.json = a.json;
    a.text.fold = a.fold;
    return run_eval_text(a.text);
  }
  a.corpus.model = a.model;
  a.corpus.tokenizer = a.tokenizer;
  a.corpus.json = a.json;
  a.corpus.fold = a.fold;
  a.corpus.has_k = given("--k");
  EvaluationWish& wish = a.corpus.wish;
  wish.split = parse_split(a.split);
  if (a.length > 0) wish.sequence_length = a.length;
  if (given("--max-tokens")) wish.max_tokens = a.max_tokens;
  if (given("--streams")) wish.streams = a.streams;
  if (given("--memory")) wish.memory = a.memory;
  run_eval_corpus(a.corpus);
}

/// What a split is read by.
void add_reading_options(CLI::App& command, EvalArguments& a) {
  command.add_option("--split", a.split, "train, validation or test")->capture_default_str();
  command
      .add_option("--max-tokens", a.max_tokens,
                  "evenly spaced windows up to this many tokens; 0: all; default: as the run was "
                  "evaluated at its end, or all")
      ->check(whole_number(0));
  command
      .add_option("--sequence-length", a.length,
                  "tokens per window; 0: as the run was evaluated, or the model's context")
      ->check(whole_number(0));
  command
      .add_option("--streams", a.streams,
                  "cut the split into so many streams and carry memory along each; 0: windows with "
                  "nothing before them; default: as the run was evaluated, or 10 for "
                  "transformer-xl, else 0")
      ->check(whole_number(0));
  command
      .add_option("--memory", a.memory,
                  "positions of memory (transformer-xl); default: as the run was evaluated, or "
                  "the model's")
      ->check(whole_number(0));
  command.add_option("--k", a.corpus.k,
                     "measure with each of these numbers of experts per token (granularity "
                     "applied): --k 1,2,4,8,16; quality, FLOPs, speed and memory of each");
  command.add_option("--plot", a.corpus.plot,
                     "with --k: a page that draws quality against k and FLOPs (.html)");
  command.add_flag("--isolate-documents", a.corpus.wish.isolate_documents,
                   "attention does not cross document borders");
}

/// --text and what belongs to it alone.
CLI::Option* add_text_options(CLI::App& command, EvalTextOptions& text) {
  CLI::Option* file = command.add_option(
      "--text", text.text, "in place of a corpus: a file of text, in the model's own tokens");
  command
      .add_option("--protocol", text.protocol,
                  "with --text: windows, one after another, or llama-perplexity, which scores the "
                  "second half of each whole window")
      ->needs(file)
      ->capture_default_str();
  command
      .add_option("--per-token", text.per_token,
                  "with --text: a file to write each scored token's id and log-probability to, "
                  "one JSON object a line")
      ->needs(file);
  return file;
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto arguments = std::make_shared<EvalArguments>();
  EvalArguments& a = *arguments;
  CLI::App* command =
      app.add_subcommand("eval", "Loss, perplexity and bits per byte on a corpus or a text");
  CLI::Option* model = command->add_option(
      "MODEL", a.model,
      "model (directory, llama2.c .bin or .gguf), or run directory (its best checkpoint)");
  CLI::Option* ngram =
      command
          ->add_option(
              "--ngram", a.ngram,
              "in place of MODEL: an n-gram model of this order, counted on the train split")
          ->check(whole_number(1, kMostNgramOrder))
          ->excludes(model);
  CLI::Option* data = command->add_option("--data", a.corpus.data, "corpus directory");
  add_reading_options(*command, a);
  command->add_option("--threads", a.threads, "0: the physical cores")
      ->check(whole_number(0, kMostThreads));
  command->add_option("--tokenizer", a.tokenizer,
                      fmt::format("in place of the model's own: {}", kTokenizerPlaces));
  command->add_flag("--fold", a.fold,
                    "measure the model with each router folded into one matrix and bias");
  command->add_flag("--json", a.json, "one JSON object");
  CLI::Option* text = add_text_options(*command, a.text);
  text->excludes(data)->excludes(ngram);
  for (const char* of_models :
       {"--max-tokens", "--sequence-length", "--streams", "--memory", "--k", "--plot", "--fold",
        "--isolate-documents", "--threads", "--tokenizer"})
    ngram->excludes(command->get_option(of_models));
  for (const char* of_corpora :
       {"--split", "--max-tokens", "--streams", "--memory", "--k", "--plot", "--isolate-documents"})
    text->excludes(command->get_option(of_corpora));
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
  command->callback([arguments, command] { run_eval(*command, *arguments); });
}

}  // namespace penstock
