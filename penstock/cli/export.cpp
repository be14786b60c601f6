#include "penstock/cli/export.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/links.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/arguments/word_option.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/convert/export/export_choice.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/ops/dispatch.h"

namespace penstock {
namespace {

struct ExportArguments {
  ExportOptions options;
  std::string text, tokenizer = "own";
  double shard_gigabytes = 5;
  std::int64_t threads = 0;
  bool json = false;
};

void print_certificate(const Certificate& certificate) {
  const auto& asked = certificate.asked_dtype;
  fmt::print("{}: {} as {}, {}{}\n", certificate.path, word(certificate.format),
             certificate.architecture, word(certificate.dtype),
             asked ? concat(": no tensor could be of ", word(*asked)) : "");
  fmt::print(
      "certificate: {}{}\n", word(certificate.verdict),
      certificate.rounded ? concat(", but for weights rounded to ", word(certificate.dtype)) : "");
  fmt::print("  routers: {}\n", certificate.routers);
  const Agreement& a = certificate.agreement;
  if (a.tokens > 0) {
    fmt::print("  on {} tokens ({}), file against model:\n", a.tokens, certificate.tokens);
    fmt::print("    largest logit difference {:.3g} of {:.3g}\n", a.max_logit_difference,
               a.largest_logit);
    fmt::print("    same highest logit {:.4f}, same experts {:.4f} ({} differ beyond ties)\n",
               a.same_top_token, a.same_experts, a.differ_beyond_ties);
  } else {
    fmt::print("  nothing was measured\n");
  }
  for (const auto& note : certificate.notes) fmt::print("  note: {}\n", note);
}

void run_export(ExportArguments arguments) {
  ExportOptions& options = arguments.options;
  check_is_new(options.out);
  check_can_make(options.out);
  ops::set_threads(static_cast<int>(arguments.threads));
  // The file is there before it is measured; without a certificate it is not finished.
  EndOnSignal guard("interrupted; what was not finished is removed",
                    {temporary_path(options.out), followed(options.out)});
  options.model = model_argument(options.model).path;
  if (!arguments.text.empty()) options.sample = arguments.text;
  options.with_tokenizer = arguments.tokenizer == "own";
  options.shard_bytes = static_cast<std::uint64_t>(arguments.shard_gigabytes * 1e9);
  ProgressLine line(stderr);
  const Certificate certificate = export_model(options, shown_on(line));
  line.finish();
  guard.disarm();
  if (arguments.json)
    fmt::print("{}\n", to_json(certificate).dump());
  else
    print_certificate(certificate);
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto arguments = std::make_shared<ExportArguments>();
  ExportOptions& options = arguments->options;
  CLI::App* command =
      app.add_subcommand("export", "Write a model as other programs open it, with a certificate");
  command
      ->add_option("MODEL", options.model,
                   "a model directory, a run, a llama2.c checkpoint (.bin) or a GGUF file")
      ->required();
  add_word_option(*command, "--format", options.format,
                  "hf: a Hugging Face directory; gguf: a file")
      ->required();
  command
      ->add_option("--architecture", options.architecture,
                   "what to write it as; default: the first that computes the same")
      ->check(CLI::IsMember(export_architectures()));
  add_word_option(*command, "--dtype", options.dtype,
                  "type of the weights; default: as they are stored. gguf alone: q8_0, q6_k, q4_k "
                  "(as llama.cpp's Q4_K_M)");
  command->add_option("--out", options.out, "directory, or file.gguf; must not exist")
      ->required()
      ->transform(output_path());
  CLI::Option* const data =
      command->add_option("--data", options.sample, "measure the file on this corpus");
  command->add_option("--text", arguments->text, "measure the file on this text")->excludes(data);
  command
      ->add_option("--check-tokens", options.check_tokens,
                   "tokens on which file and model are compared; 0: none")
      ->check(whole_number(0));
  command->add_option("--tokenizer", arguments->tokenizer, "own: the model's; none: without")
      ->check(CLI::IsMember({"own", "none"}));
  command->add_flag(
      "--fit-bias", options.fit_bias,
      "put the routers' biases into their matrices as well as --text or --data allow");
  command
      ->add_option("--shard-size", arguments->shard_gigabytes, "largest weight file of hf, in GB")
      ->check(positive_number());
  add_threads(*command, arguments->threads);
  add_json(*command, arguments->json, "the certificate as one JSON object");
  command->footer(
      "Examples:\n"
      "  penstock export runs/topk --format gguf --out topk.gguf\n"
      "  penstock export runs/upcycled --format hf --dtype bf16 --out upcycled-hf\n"
      "  penstock export model --format gguf --architecture mixtral --dtype q8_0 --out m.gguf\n"
      "  penstock export runs/remoe --format hf --out remoe-hf   # with a class of its own\n"
      "A model that no other program computes (experts with a capacity, routers that are not one\n"
      "matrix, in GGUF ReLU routing: `penstock handoff`) is refused with the reason: see "
      "docs/export.md.");
  command->callback([arguments] { run_export(*arguments); });
}

}  // namespace penstock
