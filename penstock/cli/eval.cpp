#include "penstock/cli/eval.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/cli/model_argument.h"
#include "penstock/cli/whole_number.h"
#include "penstock/eval/perplexity.h"
#include "penstock/models/model_directory.h"
#include "penstock/ops/dispatch.h"

namespace penstock {
namespace {

struct EvalOptions {
  std::string model, data, split = "validation";
  std::int64_t max_tokens = 0, length = 0, threads = 0, streams = -1, memory = -1;
  bool json = false, isolate = false;
};

void print_totals(const std::string& name, const LossTotals& totals) {
  fmt::print("{:<16} {:>8.4f} {:>10.3f} {:>9.4f} {:>14}\n", name, totals.loss(),
             totals.perplexity(), totals.bits_per_byte(), grouped(totals.tokens));
}

void check_same_tokenizer(const std::string& directory, const Corpus& corpus) {
  const auto model_tokenizer = load_tokenizer(directory);
  PENSTOCK_CHECK(model_tokenizer->files() == corpus.tokenizer().files(), corpus.path(),
                 ": was made with another tokenizer (", corpus.tokenizer_spec(),
                 ") than the model (", model_tokenizer->spec(),
                 "); prepare the text with the model's");
}

void run_eval(const EvalOptions& options) {
  ops::set_threads(static_cast<int>(options.threads));
  const auto [directory, step] = model_argument(options.model);
  const auto model = load_model(directory);
  const Corpus corpus = Corpus::open(options.data);
  corpus.file().verify();  // a flipped token would be scored silently
  check_same_tokenizer(directory, corpus);
  ProgressLine progress(options.json ? nullptr : stderr);
  const std::int64_t length = options.length > 0 ? options.length : model->config().context;
  const bool carries = model->config().transformer_xl();
  const std::int64_t streams = options.streams >= 0 ? options.streams : carries ? 10 : 0;
  const Evaluation result =
      evaluate(*model, corpus,
               {.split = parse_split(options.split),
                .sequence_length = length,
                .batch_sequences = std::max<std::int64_t>(1, 4096 / length),
                .max_tokens = options.max_tokens,
                .isolate_documents = options.isolate,
                .streams = streams,
                .memory_length = options.memory,
                .progress = [&](double done, const LossTotals& totals) {
                  if (progress.due())
                    progress.show(fmt::format("{:3.0f}%  loss {:.4f}  bits per byte {:.4f}",
                                              100 * done, totals.loss(), totals.bits_per_byte()));
                }});
  progress.finish();
  PENSTOCK_CHECK(std::isfinite(result.total.nats), directory, ": the loss on ", options.data,
                 " is not finite though every weight is: the model's activations overflow");
  if (options.json) {
    auto out = to_json(result);
    out["model"] = directory;
    out["step"] = step ? nlohmann::ordered_json(*step) : nlohmann::ordered_json();
    out["split"] = options.split;
    out["sequence_length"] = length;
    if (streams > 0) out["streams"] = streams;
    if (carries)
      out["memory_length"] = options.memory >= 0 ? options.memory : model->config().xl.memory;
    out["causal"] = model->config().causal();
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print("{}{}, {} split, windows of {} tokens\n", directory,
             step ? fmt::format(" (step {})", *step) : "", options.split, length);
  fmt::print("{:<16} {:>8} {:>10} {:>9} {:>14}\n", "domain", "loss", "perplexity", "bits/byte",
             "tokens");
  for (const auto& [name, totals] : result.by_domain) print_totals(name, totals);
  print_totals("all", result.total);
  if (!model->config().causal())
    fmt::print("note: method '{}' is not causal: {}\n", model->config().router.method, kNotCausal);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand("eval", "Loss, perplexity and bits per byte on a corpus");
  command
      ->add_option("MODEL", options->model,
                   "model directory, or run directory (its best checkpoint)")
      ->required();
  command->add_option("--data", options->data, "corpus directory")->required();
  command->add_option("--split", options->split, "train, validation or test")
      ->capture_default_str();
  command
      ->add_option("--max-tokens", options->max_tokens,
                   "evenly spaced windows up to this many tokens; 0: all")
      ->check(whole_number(0));
  command
      ->add_option("--sequence-length", options->length,
                   "tokens per window; 0: the model's context")
      ->check(whole_number(0));
  command
      ->add_option(
          "--streams", options->streams,
          "cut the split into so many streams and carry memory along each; 0: windows with "
          "nothing before them; default: 10 for transformer-xl, else 0")
      ->check(whole_number(0));
  command
      ->add_option("--memory", options->memory,
                   "positions of memory (transformer-xl); default: the model's")
      ->check(whole_number(0));
  command->add_option("--threads", options->threads, "0: the physical cores")
      ->check(whole_number(0, kMostThreads));
  command->add_flag("--isolate-documents", options->isolate,
                    "attention does not cross document borders");
  command->add_flag("--json", options->json, "one JSON object");
  command->footer(
      "Examples:\n"
      "  penstock eval runs/remoe --data corpus\n"
      "  penstock eval runs/remoe/checkpoints/step-200 --data corpus --split test --json\n"
      "  penstock eval runs/hyperrouter --data enwik8 --sequence-length 128 --memory 896");
  command->callback([options] { run_eval(*options); });
}

}  // namespace penstock
