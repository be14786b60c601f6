#include "penstock/cli/init_files.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/base/error.h"
#include "penstock/base/memory.h"
#include "penstock/base/number_text.h"
#include "penstock/base/progress.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/bench/starting_point.h"
#include "penstock/bench/step_bench.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/path_word.h"
#include "penstock/cli/default_run.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/convert/upcycle/upcycled_config.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/models/files/open_model.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/recipe_template.h"

namespace penstock {
namespace {

/// The routers that a comparison has besides the requested one.
constexpr const char* kBaselines[] = {"dense", "topk"};
constexpr std::int64_t kSeeds = 2;
constexpr std::int64_t kUpcycledExperts = 8;

/// Measures the seconds of a step on this machine with random tokens, and says so before: the steps
/// of a large model take minutes. Routers that settle at k active experts are held at k.
bench::StepBench measured(const Recipe& recipe) {
  print_line(stderr, fmt::format("measuring the steps of a model of {}, d={}",
                                 count_text(recipe.model.layers, "layer"), recipe.model.d_model));
  const ResolvedRouter parts = resolve(recipe.model.router);
  const bool held = !parts.dense() && parts.traits.variable_active && parts.traits.has_k;
  return bench::measure_step(
      recipe,
      {.steps = 3, .warm_up = 1, .active_experts = held ? recipe.model.active_experts() : 0});
}

/// The options of the summary's command, with the defaults of `penstock upcycle`.
UpcycleOptions upcycle_options(const std::string& method) {
  return completed({.method = method, .experts = kUpcycledExperts, .start = UpcycleStart::parent});
}

/// The recipe of the MoE that the summary's command would make from the dense model at `path`.
Recipe upcycled_recipe(const std::string& path, const UpcycleOptions& options) {
  const ModelConfig parent = open_model_source(model_argument(path).path)->config();
  check_can_upcycle(parent, concat("options.model: ", path));
  Recipe out;
  out.model = upcycled_config(parent, options);
  out.train.sequence_length =
      std::min<std::int64_t>(out.model.context > 0 ? out.model.context : 256, 512);
  out.train.batch_sequences = out.train.micro_batch = 8;
  return out;
}

/// Throws Error for text from which no sequence of the recipe's length can be cut.
void check_length(const StartingData& data, const Recipe& recipe) {
  PENSTOCK_CHECK(data.tokens == 0 || data.tokens > recipe.train.sequence_length,
                 data.source.empty() ? data.corpus : data.source, ": has ", data.tokens,
                 " tokens to train on, too few for sequences of ", recipe.train.sequence_length,
                 "; name more text");
}

/// The recipe's costs, as lines of text.
/// @param given  the seconds that the user has
std::string cost_text(const Recipe& recipe, std::int64_t runs, std::int64_t steps, double seconds,
                      double given) {
  const ParameterCounts counts = count_parameters(recipe.model);
  const double memory = bytes_of_process(recipe, {});
  const double usable = usable_memory_bytes();
  const auto tokens = recipe.train.batch_sequences * recipe.train.sequence_length;
  const double planned = static_cast<double>(runs * steps) * seconds;
  return fmt::format(
      "model       {}, d={}, {}\n"
      "parameters  {}, of these {} active for a token\n"
      "memory      {} to train; this machine has {}{}\n"
      "time        {}{} of {} tokens at {:.3g} s: {} (measured on this machine just now)\n"
      "{}",
      count_text(recipe.model.layers, "layer"), recipe.model.d_model,
      recipe.model.moe_layers() > 0
          ? fmt::format("{} experts in each layer, {:g} for a token", recipe.model.total_experts(),
                        recipe.model.active_experts())
          : std::string("no experts"),
      grouped(counts.total), grouped(counts.active), size_text(memory), size_text(usable),
      memory > usable ? ": it does not fit" : "", runs > 1 ? fmt::format("{} runs of ", runs) : "",
      count_text(steps, "step"), grouped(tokens), seconds, duration_text(planned),
      planned > given ? fmt::format("            above the {:g} s given: a run has {} or more\n",
                                    given, count_text(steps, "step"))
                      : "");
}

/// A line about a corpus that is there already, if the user named its text.
std::string corpus_note(const StartingData& data) {
  if (!data.exists || data.source.empty()) return "";
  return fmt::format("corpus      {} is there already; the recipe takes it, whatever its text\n",
                     data.corpus);
}

/// The command that makes the corpus, if the corpus is missing.
std::string corpus_command(const StartingData& data) {
  if (data.exists) return "";
  const std::string source = data.source == "--system" ? data.source : path_word(data.source);
  const std::string tokenizer =
      data.tokenizer.empty() ? "" : " --tokenizer " + path_word(data.tokenizer);
  return fmt::format("  penstock data prepare {}{} --out {}\n", source, tokenizer,
                     path_word(data.corpus));
}

KeyValues training_values(const StartingQuestion& question, const Recipe& recipe,
                          std::int64_t steps) {
  const std::int64_t quarter = std::max<std::int64_t>(1, steps / 4);
  return {{"data.corpus", question.data.corpus},
          {"train.steps", steps},
          {"train.warmup_steps", std::max<std::int64_t>(1, steps / 20)},
          {"train.batch_sequences", recipe.train.batch_sequences},
          {"train.sequence_length", recipe.train.sequence_length},
          {"train.lr", recipe.train.optimizer.lr},
          {"train.eval_every", quarter},
          {"train.checkpoint_every", quarter},
          {"train.seed", std::int64_t{1}}};
}

std::string stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

/// The commands that use the trained run.
std::string commands_for_run(const StartingQuestion& question, const Recipe& recipe) {
  const std::string run = shell_quoted(default_run(question.out));
  if (!recipe.model.traits().causal)  // such a model writes no text
    return fmt::format("  penstock eval {} --data {}\n", run, path_word(question.data.corpus));
  return fmt::format("  penstock generate {0} --prompt 'The '\n  penstock serve {0}\n", run);
}

/// The command that makes the MoE from the dense model.
std::string upcycle_command(const StartingQuestion& question, const Recipe& recipe,
                            const UpcycleOptions& options, const std::string& moe) {
  const std::string calibration = takes_calibration(recipe.model, options)
                                      ? " --calibration " + path_word(question.data.corpus)
                                      : "";
  return fmt::format("  penstock upcycle {} --method {} --experts {}{} --out {}\n",
                     path_word(question.model), options.method, options.experts, calibration,
                     shell_quoted(moe));
}

StartingFiles upcycling(const StartingQuestion& question) {
  const UpcycleOptions options = upcycle_options(question.method);
  const Recipe recipe = upcycled_recipe(question.model, options);
  check_length(question.data, recipe);
  const bool fits = bytes_of_process(recipe, {}) < usable_memory_bytes();
  const bench::StartingRequirements requirements{.seconds = question.seconds,
                                                 .corpus_tokens = question.data.tokens};
  const double seconds = fits ? measured(recipe).seconds : 0;
  const std::int64_t steps = fits ? bench::steps_for(requirements, recipe, seconds) : 1000;
  const std::string moe = "models/" + stem(question.out);
  KeyValues values = training_values(question, recipe, steps);
  values["name"] = stem(question.out);
  values["train.init_from"] = moe;
  values["train.lr"] = 1e-4;
  StartingFiles out;
  out.texts[question.out] = short_recipe(
      values, {concat("An MoE made of ", question.model, ", trained on. Made by `penstock init`."),
               "Other keys stand at their defaults: `penstock train --keys`."});
  out.summary =
      cost_text(recipe, 1, steps, seconds, question.seconds) +
      (fits ? "" : "            not measured, for want of memory; take fewer experts\n") +
      corpus_note(question.data) +
      fmt::format("{} is written. Next:\n{}{}  penstock train {}\n{}", question.out,
                  corpus_command(question.data), upcycle_command(question, recipe, options, moe),
                  path_word(question.out), commands_for_run(question, recipe));
  return out;
}

/// The file's name as that of a study, which names a folder: characters that it may not have become
/// '-'.
std::string study_name(const std::string& path) {
  constexpr std::size_t kLongest = 64;
  std::string out = stem(path).substr(0, kLongest);
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '+') c = '-';
  if (out.starts_with('.')) out[0] = '-';
  return out;
}

/// A study over the routers, whose base is the recipe with experts.
std::string study_text(const std::string& name, const std::string& base,
                       const std::vector<std::string>& methods) {
  ConfigNode head;  // its text has the quotes and backslashes of the base's name escaped
  head.set("name", name);
  head.set("title", std::string("Routers compared"));
  head.set("base", base);
  std::string out =
      "# Routers compared on the same tokens. Made by `penstock init`; docs/studies.md has every "
      "key.\n" +
      to_toml(head) + "seeds = [1, 2]  # more seeds tell differences from chance\n";
  for (const auto& method : methods)
    out += fmt::format("\n[variants.{}]\nset = {{\"model.router.method\" = \"{}\"{}}}\n", method,
                       method,
                       RouterConfig{.method = method}.dense() ? ", \"model.moe.experts\" = 0" : "");
  return out;
}

}  // namespace

StartingFiles starting_files(const StartingQuestion& question) {
  if (question.purpose == StartingPurpose::upcycle) return upcycling(question);
  const bool comparing = question.purpose == StartingPurpose::compare;
  std::vector<std::string> methods;
  if (comparing)
    for (const char* method : kBaselines)
      if (method != question.method) methods.push_back(method);
  methods.push_back(question.method);
  // The base of a comparison has experts. The dense variant leaves them out.
  const bool dense = RouterConfig{.method = question.method}.dense();
  const std::string method = comparing && dense ? kBaselines[1] : question.method;
  const auto runs = comparing ? static_cast<std::int64_t>(methods.size()) * kSeeds : 1;
  const bench::StartingRequirements requirements{.method = method,
                                                 .seconds = question.seconds,
                                                 .runs = runs,
                                                 .vocab = question.data.vocab,
                                                 .corpus_tokens = question.data.tokens};
  const Recipe smallest = bench::recipe_of_size(bench::model_sizes().front(), requirements);
  check_length(question.data, smallest);
  const auto tiny = measured(smallest);
  const bench::ModelSize& size = bench::size_for(requirements, tiny.useful_flops_per_second);
  const Recipe recipe = bench::recipe_of_size(size, requirements);
  const double seconds = measured(recipe).seconds;
  const std::int64_t steps = bench::steps_for(requirements, recipe, seconds);

  KeyValues values = training_values(question, recipe, steps);
  values["name"] = stem(question.out);
  values["model.d_model"] = size.d_model;
  values["model.layers"] = size.layers;
  values["model.heads"] = size.heads;
  values["model.d_ffn"] = size.d_ffn;
  const std::string text = recipe_template(
      method, values,
      {concat("A ", size.name, " model with router ", method, ", made by `penstock init`."),
       "A key behind '#' stands at its default; take the '#' away to change it."});
  StartingFiles out;
  std::string next = "  penstock train " + path_word(question.out) + "\n";
  if (comparing) {
    const std::string base = stem(question.out) + "-base.toml";
    const auto beside = std::filesystem::path(question.out).parent_path() / base;
    out.texts[beside.string()] = text;
    out.texts[question.out] = study_text(study_name(question.out), base, methods);
    next = "  penstock study " + path_word(question.out) + "\n";
  } else {
    out.texts[question.out] = text;
    next += commands_for_run(question, recipe);
  }
  out.summary =
      cost_text(recipe, runs, steps, seconds, question.seconds) + corpus_note(question.data) +
      fmt::format("{} is written. Next:\n{}{}", question.out, corpus_command(question.data), next);
  return out;
}

}  // namespace penstock
