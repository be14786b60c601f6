// `penstock eval`: loss, perplexity and bits per byte of a model on a corpus.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "penstock/base/error.h"
#include "penstock/base/named_word.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/field_options.h"
#include "penstock/cli/arguments/tokenizer_argument.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/eval_corpus.h"
#include "penstock/cli/eval_requests.h"
#include "penstock/cli/eval_tasks.h"
#include "penstock/cli/eval_text.h"
#include "penstock/eval/by_k.h"
#include "penstock/eval/ngram.h"
#include "penstock/models/files/open_model.h"
#include "penstock/ops/dispatch.h"
#include "penstock/tasks/task.h"

namespace penstock {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock eval runs/remoe --data corpus\n"
    "  penstock eval runs/remoe/checkpoints/step-200 --data corpus --split test --json\n"
    "  penstock eval runs/hyperrouter --data enwik8 --sequence-length 128 --memory 896 \\\n"
    "      --k 1,2,4,8,16 --plot by-k.html\n"
    "  penstock eval runs/hyperrouter --data enwik8 --fold\n"
    "  penstock eval runs/remoe --data corpus --active-experts 0.5,1,2\n"
    "  penstock eval runs/topk --data corpus --oracle-routing\n"
    "  penstock eval --ngram 5 --data enwik8 --split test\n"
    "  penstock eval runs/remoe --text notes.txt --sequence-length 512 --per-token scores.jsonl\n"
    "  penstock eval model --tasks remoe --task-data zero_shot --items items.jsonl\n"
    "  penstock eval moe --tasks arc_easy,piqa --task-data zero_shot --compare dense-parent\n"
    "  penstock eval model --tasks arc_challenge --task-data zero_shot --fewshot 25\n"
    "  penstock eval model --tasks router-upcycling --protocol opencompass --task-data zero_shot\n"
    "  penstock eval model --task colours.toml --json\n"
    "  penstock eval model --requests requests.jsonl > answers.jsonl\n"
    "--k overrides the k and the schedule of training; without --k, the final k applies. --k is\n"
    "for models whose tokens choose the experts of their k highest logits. --active-experts is\n"
    "for models whose experts are active where their logits are positive.";

struct EvalArguments {
  EvalCorpusOptions corpus;
  EvalTextOptions text;
  EvalTasksOptions tasks;
  std::string model, tokenizer, protocol;
  std::int64_t threads = 0, ngram = 0;
  bool json = false, fold = false, as_trained = false, list_tasks = false;
};

void run_tasks(EvalArguments a) {
  EvalTasksOptions& tasks = a.tasks;
  tasks.model = a.model;
  tasks.tokenizer = a.tokenizer;
  if (!a.protocol.empty()) {
    const auto protocol = of_word<tasks::TaskProtocol>(a.protocol);
    if (!protocol)
      throw CLI::ValidationError(
          "--protocol",
          "of tasks is one of " + word_list<tasks::TaskProtocol>() + ", not " + a.protocol);
    tasks.protocol = *protocol;
  }
  if (a.corpus.has_k) {
    const auto values = parse_k_values(a.corpus.k);
    if (values.size() != 1)
      throw CLI::ValidationError("--k", "takes one number of experts with --tasks and --requests");
    tasks.k = values.front();
  }
  tasks.sequence_length = a.corpus.overrides.keys.sequence_length;
  tasks.json = a.json;
  tasks.fold = a.fold;
  if (tasks.requests.empty())
    run_eval_tasks(tasks);
  else
    run_eval_requests(tasks);
}

void run_eval(const CLI::App& command, EvalArguments a) {
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  if (a.list_tasks) return list_tasks(a.json);
  const bool of_tasks = given("--tasks") || given("--task"), of_requests = given("--requests");
  if (given("--protocol") && !of_tasks && !given("--text"))
    throw CLI::RequiresError("--protocol", "--text or --tasks");
  for (const char* option :
       {"--task-data", "--limit", "--items", "--compare", "--fewshot", "--fewshot-seed"})
    if (given(option) && !of_tasks) throw CLI::RequiresError(option, "--tasks");
  if (given("--f64") && !of_tasks && !of_requests)
    throw CLI::RequiresError("--f64", "--tasks or --requests");
  if (!given("--data") && !given("--text") && !of_tasks && !of_requests)
    throw CLI::RequiredError("--data, --text, --tasks or --requests");
  if (a.ngram > 0)
    return run_eval_ngram(a.corpus.data, static_cast<int>(a.ngram), a.corpus.overrides.split,
                          a.json);
  if (a.model.empty()) throw CLI::RequiredError("MODEL");
  ops::set_threads(static_cast<int>(a.threads));
  a.corpus.has_k = given("--k");
  a.corpus.has_active = given("--active-experts");
  if (of_tasks || of_requests) return run_tasks(std::move(a));
  if (given("--text")) {
    if (!a.protocol.empty()) a.text.protocol = a.protocol;
    a.text.model = a.model;
    a.text.tokenizer = a.tokenizer;
    a.text.length = a.corpus.overrides.keys.sequence_length;
    a.text.json = a.json;
    a.text.fold = a.fold;
    a.text.as_trained = a.as_trained;
    return run_eval_text(a.text);
  }
  a.corpus.model = a.model;
  a.corpus.tokenizer = a.tokenizer;
  a.corpus.json = a.json;
  a.corpus.fold = a.fold;
  a.corpus.as_trained = a.as_trained;
  run_eval_corpus(a.corpus);
}

/// The options of how a split is read.
void add_reading_options(CLI::App& command, EvalArguments& a) {
  add_field_options(command, a.corpus.overrides);
  command.add_option("--k", a.corpus.k,
                     "measure with each of these numbers of experts per token (granularity "
                     "applied): --k 1,2,4,8,16; reports quality, FLOPs, speed and memory for each");
  command.add_option("--active-experts", a.corpus.active,
                     "measure with each of these mean numbers of active experts per token and "
                     "layer, set by a shift of the logits: --active-experts 0.5,1,2");
  command.add_flag("--oracle-routing", a.corpus.oracle,
                   "also measure the loss if each token had the experts that best predict its "
                   "target, chosen layer by layer from the last");
  command.add_option("--plot", a.corpus.plot,
                     "with --k: page (.html) with charts of quality against k and FLOPs");
}

/// --text and the options that only --text takes.
CLI::Option* add_text_options(CLI::App& command, EvalTextOptions& text) {
  CLI::Option* file = command.add_option(
      "--text", text.text,
      "text file to measure, in place of a corpus, with the model's own tokenizer");
  command
      .add_option("--per-token", text.per_token,
                  "with --text: output file for the id and log-probability of each scored token, "
                  "one JSON object per line")
      ->needs(file);
  command
      .add_flag(
          "--int8", text.int8,
          "with --text: round as `penstock generate` does for weights in Q4_K or Q6_K, in all "
          "products but the head's: activations to 8 bits in windows of at most 16 tokens, "
          "products to bf16 in longer windows")
      ->needs(file);
  return file;
}

/// --tasks and the options that only --tasks takes.
void add_task_options(CLI::App& command, EvalArguments& a) {
  CLI::Option* names = one_value_each(
      command
          .add_option("--tasks", a.tasks.tasks,
                      "zero-shot tasks and groups of tasks to measure, in place of a corpus, "
                      "separated by commas; --list-tasks shows them")
          ->delimiter(','));
  CLI::Option* files = one_value_each(command.add_option(
      "--task", a.tasks.files, "a task of your own: a TOML file (docs/tasks.md); may be repeated"));
  command.add_option(
      "--protocol", a.protocol,
      "protocol of the measurement; for tasks: lm-eval (default) or opencompass; for a text: "
      "windows (default), one after another, or llama-perplexity, which scores the second half of "
      "each whole window");
  command.add_option(
      "--task-data", a.tasks.data,
      "folder with the tasks' files; default for --task: the folder of the TOML file");
  command.add_option("--limit", a.tasks.limit, "number of items per task, from the first; 0: all")
      ->check(whole_number(0));
  CLI::Option* fewshot =
      command
          .add_option(
              "--fewshot", a.tasks.fewshot,
              "number of few-shot examples before each item, drawn as lm-eval draws them; 0: none")
          ->check(whole_number(0));
  command
      .add_option("--fewshot-seed", a.tasks.fewshot_seed,
                  "seed for drawing few-shot examples (lm-eval's fourth --seed)")
      ->check(whole_number(0))
      ->capture_default_str()
      ->needs(fewshot);
  command.add_option("--items", a.tasks.items,
                     "output file for each item's requests, tokens, log-likelihoods and answers, "
                     "one JSON object per line");
  command.add_option("--compare", a.tasks.compare,
                     "second model, for paired differences of accuracies");
  command.add_flag("--f64", a.tasks.f64,
                   "compute tasks and requests in f64, without f32 rounding, with reference "
                   "operators, which are several times slower");
  command.add_flag("--list-tasks", a.list_tasks, "only list the tasks of each protocol");
  CLI::Option* requests = command.add_option(
      "--requests", a.tasks.requests,
      "compute log-likelihoods for another program: a file, or - for standard input, with one JSON "
      "object per line, {context, continuation} or {ids, scored_from}; each gets one line as its "
      "answer, and an empty line requests the answers to all lines before it");
  for (const char* other : {"--tasks", "--task", "--limit", "--items", "--compare", "--json"})
    requests->excludes(command.get_option(other));
  for (CLI::Option* option : {names, files, requests})
    for (const char* other :
         {"--data", "--text", "--ngram", "--split", "--max-tokens", "--streams", "--memory",
          "--plot", "--isolate-documents", "--active-experts", "--as-trained", "--oracle-routing"})
      option->excludes(command.get_option(other));
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto arguments = std::make_shared<EvalArguments>();
  EvalArguments& a = *arguments;
  CLI::App* command = app.add_subcommand("eval",
                                         "Measure loss, perplexity and bits per byte on a corpus "
                                         "or a text, or scores on zero-shot tasks");
  CLI::Option* model = command->add_option(
      "MODEL", a.model,
      concat("model (", kModelForms, "), or run directory (its best checkpoint)"));
  CLI::Option* ngram =
      command
          ->add_option("--ngram", a.ngram,
                       "n-gram model of this order, counted on the train split, in place of MODEL")
          ->check(whole_number(1, kMostNgramOrder))
          ->excludes(model);
  CLI::Option* data = command->add_option("--data", a.corpus.data, "corpus directory");
  add_reading_options(*command, a);
  add_threads(*command, a.threads);
  command->add_option("--tokenizer", a.tokenizer,
                      fmt::format("in place of the model's own: {}", kTokenizerPlaces));
  command->add_flag("--fold", a.fold,
                    "measure the model with each router folded into one matrix and bias");
  command->add_flag("--as-trained", a.as_trained,
                    "on a corpus or text: experts with thresholds choose among all tokens of a "
                    "pass, as in training and in papers; the loss is then not causal");
  add_json(*command, a.json);
  CLI::Option* text = add_text_options(*command, a.text);
  add_task_options(*command, a);
  text->excludes(data)->excludes(ngram);
  for (const char* of_models :
       {"--max-tokens", "--sequence-length", "--streams", "--memory", "--k", "--active-experts",
        "--plot", "--fold", "--as-trained", "--isolate-documents", "--oracle-routing", "--threads",
        "--tokenizer"})
    ngram->excludes(command->get_option(of_models));
  for (const char* of_corpora :
       {"--split", "--max-tokens", "--streams", "--memory", "--k", "--active-experts",
        "--oracle-routing", "--plot", "--isolate-documents"})
    text->excludes(command->get_option(of_corpora));
  command->footer(kExamples);
  command->callback([arguments, command] { run_eval(*command, *arguments); });
}

}  // namespace penstock
