// `penstock generate`: text from a model.
#include "penstock/infer/generate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/base/json_text.h"
#include "penstock/base/number_text.h"
#include "penstock/base/progress.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/given_value.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/commands.h"
#include "penstock/data/utf8.h"
#include "penstock/infer/draft_check.h"
#include "penstock/infer/session.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/fold_routers.h"
#include "penstock/ops/dispatch.h"
#include "penstock/train/interrupt.h"

namespace penstock {
namespace {

struct GenerateArguments {
  std::string model, draft;
  std::vector<std::string> prompts, prompt_files;
  GenerateOptions options;
  std::int64_t threads = 0;
  bool json = false, fold = false, exact = false;
};

/// The text of a file, or of standard input for "-", without its last newline.
std::string read_prompt(const std::string& path) {
  std::string text = path == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                 : real_file_system().read(path);
  if (text.ends_with('\n')) text.pop_back();
  const std::size_t invalid = find_invalid_utf8(text);
  PENSTOCK_CHECK(invalid == std::string::npos, path == "-" ? "standard input" : path,
                 ": is not UTF-8 at byte ", invalid, "; convert it first, or name another file");
  return text;
}

std::vector<std::string> prompts_of(const GenerateArguments& arguments) {
  std::vector<std::string> out = arguments.prompts;
  for (const auto& path : arguments.prompt_files) out.push_back(read_prompt(path));
  if (out.empty()) out.emplace_back();
  return out;
}

double per_second(std::int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

nlohmann::ordered_json to_json(const Generation& generation,
                               const std::vector<std::string>& prompts) {
  nlohmann::ordered_json out;
  out["completions"] = nlohmann::ordered_json::array();
  for (const Completion& text : generation.completions)
    out["completions"].push_back({{"prompt", prompts[text.prompt]},
                                  {"sample", text.sample},
                                  {"text", text.text},
                                  {"tokens", text.tokens},
                                  {"finish", name(text.finish)}});
  const GenerationSpeed& speed = generation.speed;
  out["prompt_tokens"] = speed.prompt_tokens;
  out["prompt_tokens_per_second"] = per_second(speed.prompt_tokens, speed.prompt_seconds);
  out["generated_tokens_per_second"] = per_second(speed.steps_tokens, speed.steps_seconds);
  out["drafted_tokens"] = speed.drafted_tokens;
  out["accepted_tokens"] = speed.accepted_tokens;
  return out;
}

void print_speed(const GenerationSpeed& speed, const std::string& ending) {
  print_line(stderr, fmt::format("prompt: {}, {:.1f} tokens/s; generation: {}, {:.1f} tokens/s{}",
                                 count_text(speed.prompt_tokens, "token"),
                                 per_second(speed.prompt_tokens, speed.prompt_seconds),
                                 count_text(speed.steps_tokens, "token"),
                                 per_second(speed.steps_tokens, speed.steps_seconds), ending));
  if (speed.drafted_tokens > 0)
    print_line(stderr, fmt::format("draft: {} of {} proposed tokens taken", speed.accepted_tokens,
                                   speed.drafted_tokens));
}

/// Prints a single text as it comes. Prints each of several texts when it is complete, under a line
/// that names it.
class Printer {
 public:
  Printer(const std::vector<std::string>& prompts, std::int64_t samples)
      : prompts_(prompts), samples_(samples), single_(prompts.size() == 1 && samples == 1) {}

  void text(std::string_view piece) {
    if (!single_) return;
    if (!std::exchange(begun_, true)) print(prompts_[0]);
    print(piece);
  }
  void done(const Completion& completion) {
    if (single_) return text("\n");
    print(fmt::format("== prompt {}{} ==\n{}{}\n", completion.prompt + 1,
                      samples_ > 1 ? fmt::format(", text {}", completion.sample + 1) : "",
                      prompts_[completion.prompt], completion.text));
  }

 private:
  static void print(std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  }

  const std::vector<std::string>& prompts_;
  std::int64_t samples_;
  bool single_, begun_ = false;
};

/// The draft model, which must have the model's tokenizer; null without --draft.
std::shared_ptr<LanguageModel> load_draft(const std::string& path, const Tokenizer& tokenizer,
                                          Weights weights) {
  if (path.empty()) return nullptr;
  return with_model(path, [&](const ModelArgument& chosen) {
    const std::shared_ptr<const ModelSource> source = open_model_source(chosen.path);
    check_same_ids(tokenizer, *source->tokenizer());
    return load_for_inference(source, weights);
  });
}

/// Tells which of the given options change nothing, since no token is drawn.
void note_what_is_not_read(const CLI::App& command, const SamplingOptions& sampling) {
  if (sampling.temperature > 0) return;
  std::vector<std::string> unread;
  for (const char* option : {"--top-k", "--top-p", "--min-p"})
    if (command.count(option) > 0) unread.emplace_back(option);
  if (!unread.empty())
    print_line(stderr, concat("note: nothing reads ", joined(unread),
                              " at temperature 0, where the most likely token is always taken; "
                              "give --temperature"));
}

int run_generate(const GenerateArguments& arguments) {
  ops::set_threads(static_cast<int>(arguments.threads));
  const GenerateOptions& asked = arguments.options;
  PENSTOCK_CHECK(asked.samples == 1 || asked.sampling.temperature > 0, "--batch ", asked.samples,
                 ": at temperature 0 all texts of a prompt are the same; give --temperature");
  const std::vector<std::string> prompts = prompts_of(arguments);
  const Weights in_place = arguments.exact ? Weights::in_place : Weights::in_place_int8;
  auto [argument, tokenizer, model] = with_model(arguments.model, [&](const ModelArgument& chosen) {
    const std::shared_ptr<const ModelSource> source = open_model_source(chosen.path);
    return std::tuple(chosen, source->tokenizer(),
                      load_for_inference(source, arguments.fold ? Weights::as_f32 : in_place));
  });
  const auto& [path, step] = argument;
  if (arguments.fold) model = fold_routers(*model);
  GenerateOptions options = arguments.options;
  options.draft = load_draft(arguments.draft, *tokenizer, in_place);
  const InterruptGuard guard;
  Printer printer(prompts, arguments.options.samples);
  GenerationListener listener{.interrupted = [&] { return guard.signal() != 0; }};
  if (!arguments.json) {
    listener.text = [&](const Completion&, std::string_view piece) { printer.text(piece); };
    listener.done = [&](const Completion& text) { printer.done(text); };
  }
  Generation generation;
  try {
    generation = generate(std::move(model), *tokenizer, prompts, options, listener);
  } catch (const LogitsError& error) {
    fail(path, ": ", error.what());
  }
  const bool interrupted = guard.signal() != 0;
  if (arguments.json) {
    auto out = to_json(generation, prompts);
    out["model"] = path;
    out["step"] = step ? nlohmann::ordered_json(*step) : nlohmann::ordered_json();
    out["folded"] = arguments.fold;
    fmt::print("{}\n", json_text(out, 2));
  }
  std::string ending;
  for (const Completion& text : generation.completions)
    if (text.finish == Finish::context && ending.empty()) ending = "; ended at the model's context";
  print_speed(generation.speed, interrupted ? "; interrupted" : ending);
  return interrupted ? 130 : 0;
}

/// The options of the model and the prompt.
void add_prompts(CLI::App& command, GenerateArguments& arguments) {
  command
      .add_option("MODEL", arguments.model,
                  "model of any format, or run directory (its best checkpoint)")
      ->required();
  may_be_empty(one_value_each(
      command.add_option("--prompt", arguments.prompts,
                         "text to continue; may be repeated; without a prompt: a new document")));
  one_value_each(command.add_option(
      "--prompt-file", arguments.prompt_files,
      "file with a text to continue, - for standard input; a newline at the end is left out"));
}

/// The options that make tokens of the sequence less likely.
void add_penalties(CLI::App& command, LogitAdjustments& penalties) {
  const double most = std::numeric_limits<double>::max();
  command
      .add_option("--repetition-penalty", penalties.repetition_penalty,
                  "divide positive logits of tokens of prompt and text by this value, and multiply "
                  "negative ones; 1: none")
      ->check(positive_number())
      ->check(real_number(0, most))
      ->capture_default_str();
  command
      .add_option("--frequency-penalty", penalties.frequency_penalty,
                  "subtract this value from a token's logit for each time that the text has the "
                  "token")
      ->check(real_number(-most, most))
      ->capture_default_str();
  command
      .add_option("--presence-penalty", penalties.presence_penalty,
                  "subtract this value from the logits of tokens that the text has")
      ->check(real_number(-most, most))
      ->capture_default_str();
}

/// The options of how tokens are chosen and where a text ends.
void add_choice(CLI::App& command, GenerateOptions& options) {
  command
      .add_option("--tokens,--max-tokens", options.max_tokens,
                  "largest number of new tokens in a text")
      ->check(whole_number(1))
      ->capture_default_str();
  command
      .add_option(
          "--temperature", options.sampling.temperature,
          "sampling temperature; 0: always the most likely token; 1: the model's probabilities")
      ->check(real_number(0, std::numeric_limits<double>::max()))
      ->capture_default_str();
  command
      .add_option("--top-k", options.sampling.top_k,
                  "sample from this number of most likely tokens; 0: all")
      ->check(whole_number(0))
      ->capture_default_str();
  command
      .add_option("--top-p", options.sampling.top_p,
                  "sample from the fewest most likely tokens whose probabilities sum to at least "
                  "this value")
      ->check(positive_number())
      ->check(real_number(0, 1))
      ->capture_default_str();
  command
      .add_option("--min-p", options.sampling.min_p,
                  "sample from tokens at least this times as likely as the most likely one; 0: all")
      ->check(real_number(0, 1))
      ->capture_default_str();
  add_penalties(command, options.adjustments);
  command.add_option("--seed", options.sampling.seed, "seed of the sampling")
      ->check(whole_number(0))
      ->capture_default_str();
  command
      .add_option("--batch", options.samples, "number of texts per prompt, sampled independently")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  const auto not_empty = [](std::string& text) -> std::string {
    return text.empty() ? "must have a character or more" : "";
  };
  one_value_each(
      command.add_option("--stop", options.stop, "end before this text; may be repeated"))
      ->check(CLI::Validator(not_empty, ""));
}

/// The options of the computation, which do not change the text.
void add_computation(CLI::App& command, GenerateArguments& arguments) {
  CLI::Option* draft = command.add_option(
      "--draft", arguments.draft,
      "smaller model with the same tokenizer that proposes tokens: the same text, faster");
  command
      .add_option("--draft-tokens", arguments.options.draft_tokens,
                  "number of tokens that the draft model proposes at a time")
      ->check(whole_number(1, kFewTokens - 1))
      ->capture_default_str()
      ->needs(draft);
  command.add_flag("--fold", arguments.fold,
                   "fold each router into one matrix and bias before generation");
  command.add_flag(
      "--exact", arguments.exact,
      "do not round activations to 8 bits, nor long prompts to bf16, for weights in Q4_K or "
      "Q6_K");
  add_threads(command, arguments.threads);
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt with a model's text");
  add_prompts(*command, *arguments);
  add_choice(*command, arguments->options);
  add_computation(*command, *arguments);
  add_json(*command, arguments->json, "print one JSON object, with the tokens, at the end");
  command->footer(
      "Examples:\n"
      "  penstock generate runs/remoe --prompt 'Once upon a time'\n"
      "  penstock generate runs/remoe --prompt-file start.txt --temperature 0.8 --top-p 0.95 \\\n"
      "      --seed 7 --tokens 500\n"
      "  penstock generate runs/remoe --prompt 'To be' --batch 4 --temperature 1 --json\n"
      "  penstock generate runs/upcycled --draft runs/dense --prompt 'To be'\n"
      "A text ends at the end of a document. The same seed gives the same text, whatever else is\n"
      "generated with it. Speeds go to standard error. docs/generate.md has more.");
  command->callback([arguments, command, &exit_code] {
    note_what_is_not_read(*command, arguments->options.sampling);
    exit_code = run_generate(*arguments);
  });
}

}  // namespace penstock
