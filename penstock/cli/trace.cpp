// `penstock trace`: every router's input, logits and gates, as safetensors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <tuple>

#include "penstock/analysis/routing_trace.h"
#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/number_text.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/token_ids.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/ops/dispatch.h"

namespace penstock {
namespace {

struct TraceOptions {
  std::string model, text, tokens, out;
  std::int64_t threads = 0;
  bool has_text = false;
};

std::vector<std::int64_t> traced_tokens(const TraceOptions& options, const ModelSource& model) {
  if (!options.has_text) return read_token_ids(options.tokens);
  const auto tokenizer = model.tokenizer();
  std::vector<std::int64_t> out;
  if (const TokenId id = tokenizer->beginning_of_document(); id >= 0) out.push_back(id);
  for (const TokenId id : tokenizer->encode(options.text)) out.push_back(id);
  return out;
}

void run_trace(const TraceOptions& options) {
  ops::set_threads(static_cast<int>(options.threads));
  check_overwrites_no_input(options.out, options.tokens);
  PENSTOCK_CHECK(!std::filesystem::exists(options.out), options.out,
                 ": is there already; name another file, or remove it");
  check_can_write(options.out);
  const EndOnSignal guard(kNothingWritten, {temporary_path(options.out)});
  const auto [path, tokens, model] = with_model(options.model, [&](const ModelArgument& chosen) {
    const std::shared_ptr<const ModelSource> source = open_model_source(chosen.path);
    PENSTOCK_CHECK(source->config().moe_layers() > 0, chosen.path,
                   ": is dense; it has no routers to trace. Upcycle it, or give an MoE");
    return std::tuple(chosen.path, traced_tokens(options, *source),
                      load_for_inference(source, Weights::in_place));
  });
  const TensorMap trace = analysis::trace_routing(*model, tokens);
  save_tensors(real_file_system(), options.out, trace, {{"format", "pt"}, {"model", path}});
  const ModelConfig& config = model->config();
  fmt::print("{}: {} through {} with experts ({} experts, d={})\n", options.out,
             count_text(std::ssize(tokens), "token"), count_text(config.moe_layers(), "layer"),
             config.total_experts(), config.d_model);
}

}  // namespace

void add_trace_command(CLI::App& app) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* command = app.add_subcommand(
      "trace", "Write every router's input, logits and gates, token by token, as safetensors");
  command
      ->add_option("MODEL", options->model,
                   "model (directory, or one file), or run directory (its best checkpoint)")
      ->required();
  CLI::Option* text = command->add_option(
      "--text", options->text,
      "text to trace, with the model's own tokenizer, and with its BOS if it has one");
  CLI::Option* tokens =
      command
          ->add_option(
              "--tokens", options->tokens,
              "file of token ids to trace: a JSON array, or numbers separated by white space")
          ->excludes(text);
  command->add_option("--out", options->out, "output file (.safetensors)")
      ->required()
      ->transform(output_path());
  add_threads(*command, options->threads);
  command->footer(
      "Examples:\n"
      "  penstock trace moe --text 'Once upon a time' --out trace.safetensors\n"
      "  penstock trace runs/remoe --tokens ids.json --out trace.safetensors\n"
      "The file holds, for each layer N with experts, layers.N.router_input [T, d], "
      "layers.N.logits\n"
      "[T, E] and layers.N.gates [T, E] (0 where a token does not pass an expert), and tokens "
      "[T].\n"
      "Methods that score no tokens (hash) have no logits. The tokens are one sequence.");
  command->callback([options, text, tokens] {
    if (text->count() + tokens->count() != 1) throw CLI::RequiredError("--text or --tokens");
    options->has_text = text->count() > 0;
    run_trace(*options);
  });
}

}  // namespace penstock
