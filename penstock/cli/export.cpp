// `penstock export`: writes a model as files for other programs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/base/links.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/field_options.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/models/files/open_model.h"
#include "penstock/ops/dispatch.h"

namespace penstock {
namespace {

struct ExportArguments {
  ExportOptions options;
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
  // The file exists before it is measured. Without a certificate it is not finished.
  EndOnSignal guard(kUnfinishedRemoved, {temporary_path(options.out), followed(options.out)});
  options.model = model_argument(options.model).path;
  ProgressLine line(stderr);
  const Certificate certificate = export_model(options, shown_on(line));
  line.finish();
  guard.disarm();
  if (arguments.json)
    fmt::print("{}\n", json_text(to_json(certificate)));
  else
    print_certificate(certificate);
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto arguments = std::make_shared<ExportArguments>();
  ExportOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand(
      "export", "Write a model in a format of other programs, with a certificate");
  command->add_option("MODEL", options.model, concat("a model directory, a run, ", kModelFiles))
      ->required();
  command->add_option("--out", options.out, "output directory or file.gguf; must not exist")
      ->required()
      ->transform(output_path());
  add_field_options(*command, options);
  command->get_option("--format")->required()->default_str("");
  CLI::Option* const data = command->add_option("--data", options.sample,
                                                "compare the file with the model on this corpus");
  command->add_option("--text", options.sample, "compare the file with the model on this text")
      ->excludes(data);
  add_threads(*command, arguments->threads);
  add_json(*command, arguments->json, "print the certificate as one JSON object");
  command->footer(
      "Examples:\n"
      "  penstock export runs/topk --format gguf --out topk.gguf\n"
      "  penstock export runs/upcycled --format hf --dtype bf16 --out upcycled-hf\n"
      "  penstock export model --format gguf --architecture mixtral --dtype q8_0 --out m.gguf\n"
      "  penstock export model --format gguf --dtype q4_k --out m.gguf \\\n"
      "      --text text.txt --importance-tokens 65536\n"
      "  penstock export runs/remoe --format hf --out remoe-hf   # with a class of its own\n"
      "A model that no other program can compute is refused with the reason. Examples are experts\n"
      "with a capacity, routers that are not one matrix, and, in GGUF, ReLU routing (see\n"
      "`penstock handoff`). docs/export.md has more.");
  command->callback([arguments] { run_export(*arguments); });
}

}  // namespace penstock
