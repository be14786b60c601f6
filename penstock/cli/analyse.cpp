// `penstock analyse`: the behaviour of a model's routers and experts, and published tables in
// closed form.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "penstock/analysis/flips.h"
#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/base/progress.h"
#include "penstock/cli/analysis_text.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/field_options.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/cli/run_settings.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/files/same_tokenizer.h"
#include "penstock/ops/dispatch.h"
#include "penstock/report/pages.h"
#include "penstock/report/text.h"
#include "penstock/study/config/embedded_studies.h"
#include "penstock/study/tables/closed_tables.h"
#include "penstock/train/checkpoints/checkpoint_manifest.h"
#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/evaluation_settings.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/read_recipe.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct AnalyseOptions {
  std::string model, data, html;
  EvaluationOverrides overrides{.split = Split::kTest, .max_tokens = 65536};
  std::vector<std::string> tables;
  std::int64_t samples = 4, jacobian_tokens = 4, threads = 0;
  bool json = false, only_best = false;
};

using Checkpoints = std::vector<std::pair<std::int64_t, std::string>>;

constexpr std::size_t kListedTokens = 8;    // tokens listed for each expert
constexpr std::int64_t kFlipTokens = 4096;  // approximate number of tokens
constexpr std::int64_t kGradientTokens = 2048;

/// The undamaged checkpoints of a run, by step.
Checkpoints checkpoints_of(const std::string& run) {
  Checkpoints out;
  const CheckpointStore store(real_file_system(), run);
  for (const std::int64_t step : store.steps()) try {
      verify_checkpoint(real_file_system(), store.directory(step), true);
      out.emplace_back(step, store.directory(step).string());
    } catch (const Error&) {  // model_argument() has said so
    }
  return out;
}

class Analyst {
 public:
  explicit Analyst(const AnalyseOptions& options)
      : options_(options),
        chosen_(with_model(options.model, read_whole)),
        argument_(chosen_.argument),
        is_run_(argument_.path != options.model),
        run_recipe_(run_settings(argument_.path)),
        corpus_(Corpus::open(options.data)),
        progress_(options.json ? nullptr : stderr) {
    corpus_.file().verify();  // else a damaged token would be scored silently
    check_same_tokenizer(*chosen_.tokenizer, corpus_);
    out_.model = argument_.path;
    out_.split = split_name(options.overrides.split);
    out_.config = chosen_.model->config();
    out_.refused = analysis::refusals(out_.config);
  }

  analysis::Analysis run() {
    if (is_run_) add_initial();
    Checkpoints checkpoints;
    if (is_run_ && !options_.only_best) checkpoints = checkpoints_of(options_.model);
    const std::int64_t chosen_step = argument_.step.value_or(0);
    // Training may have removed the checkpoint by now. The analysis has already read it.
    if (std::ranges::find(checkpoints, chosen_step, &Checkpoints::value_type::first) ==
        checkpoints.end())
      checkpoints.emplace_back(chosen_step, "");
    std::ranges::sort(checkpoints);
    for (const auto& [step, directory] : checkpoints) {
      const bool chosen = step == chosen_step;
      const auto model = chosen ? chosen_.model : checkpoint(directory);
      if (!model) continue;
      if (chosen) out_.chosen = out_.snapshots.size();
      add(*model, argument_.step ? std::optional(step) : std::nullopt, chosen);
      if (chosen) look_closer(*model);
    }
    say_what_is_missing();
    if (out_.refused.jacobian.empty())
      out_.growth = analysis::growth(out_, options_.jacobian_tokens);
    progress_.finish();
    return std::move(out_);
  }

 private:
  /// Reads the model and the data of the analysis while their files exist.
  struct Chosen {
    ModelArgument argument;
    std::shared_ptr<LanguageModel> model;
    std::shared_ptr<const Tokenizer> tokenizer;
  };

  static Chosen read_whole(const ModelArgument& argument) {
    const auto source = open_model_source(argument.path);
    return {.argument = argument, .model = load_model(*source), .tokenizer = source->tokenizer()};
  }

  /// Another checkpoint of the run; null where training has removed it since it was listed.
  static std::shared_ptr<LanguageModel> checkpoint(const std::string& directory) {
    try {
      return load_model(directory);
    } catch (const std::exception&) {
      if (fs::exists(directory)) throw;
      return nullptr;
    }
  }

  /// The run's model before its first step, made again from the run's seed.
  void add_initial() {
    if (!run_recipe_) return;
    Recipe recipe = *run_recipe_;
    try {
      recipe = with_initial_hash(std::move(recipe));
    } catch (const Error& error) {
      without_first_ = concat("step 0 is left out: ", error.what());
      print_line(stderr, "note: " + without_first_);
      return;
    }
    recipe.model = out_.config;  // with the corpus's vocabulary
    const auto model = initial_model(recipe);
    add(*model, 0, false);
  }

  void add(LanguageModel& model, std::optional<std::int64_t> step, bool chosen) {
    const std::string name = step ? fmt::format("step {}", *step) : out_.model;
    EvaluateOptions reading = reading_of(model.config());
    reading.progress = [&](double done, const LossTotals&) {
      if (progress_.due()) progress_.show(fmt::format("{}  {:3.0f}%", name, 100 * done));
    };
    out_.snapshots.push_back(
        {step,
         analysis::measure(model, corpus_,
                           {.reading = std::move(reading),
                            .by_token = chosen,
                            .gradient_tokens = kGradientTokens,
                            .step = step.value_or(0),
                            .total_steps = step && run_recipe_ ? run_recipe_->train.steps : 0})});
    if (is_run_ && out_.refused.load.empty()) add_flips(model, step.value_or(0));
  }

  /// The evaluation settings of the run, changed by the command line's options.
  EvaluateOptions reading_of(const ModelConfig& config) const {
    return evaluation_settings(config, run_recipe_ ? &*run_recipe_ : nullptr, options_.overrides);
  }

  /// Compares the chosen experts with those of the previous snapshot.
  void add_flips(LanguageModel& model, std::int64_t step) {
    const std::int64_t length = reading_of(out_.config).sequence_length;
    const at::Tensor active = analysis::active_experts(
        model, corpus_,
        {.split = options_.overrides.split, .tokens = kFlipTokens, .sequence_length = length});
    if (active_.defined())
      out_.flips.push_back(analysis::flips_between(active_step_, active_, step, active));
    out_.flip_tokens = active.size(1);
    active_ = active;
    active_step_ = step;
  }

  void say_what_is_missing() {
    if (!out_.refused.load.empty()) {
      out_.no_flips = out_.one_domain = out_.refused.load;
      return;
    }
    if (!is_run_)
      out_.no_flips =
          "flips are between the checkpoints of a run; give the run directory, not one model";
    else if (out_.flips.empty())
      out_.no_flips = without_first_.empty() ? "the run has one checkpoint, of step 0; train on"
                                             : without_first_;
    if (out_.here().measures.domains.size() < 2)
      out_.one_domain =
          "the text that was read is of one domain; penstock data prepare makes one of each input, "
          "or of each name in the field that --domain-field names";
  }

  void look_closer(LanguageModel& model) {
    const analysis::Probe& probe = out_.here().measures.probe;
    if (out_.refused.samples.empty())
      out_.samples = analysis::sample_tokens(probe, options_.samples);
    if (const auto& counted = out_.here().measures.by_token)
      out_.experts = analysis::expert_tokens(*counted, corpus_.tokenizer(), kListedTokens);
    if (progress_.due()) progress_.show("Jacobians");
    if (out_.refused.jacobian.empty())
      out_.jacobians = analysis::jacobians(model, probe, options_.jacobian_tokens);
  }

  const AnalyseOptions& options_;
  Chosen chosen_;
  const ModelArgument& argument_;
  bool is_run_;
  std::optional<Recipe> run_recipe_;  // the run's recipe, for its evaluation settings
  at::Tensor active_;                 // active experts of the previous snapshot, [L, T, E]
  std::int64_t active_step_ = 0;
  Corpus corpus_;
  ProgressLine progress_;
  std::string without_first_;  // why step 0 is left out
  analysis::Analysis out_;
};

void print_tables(const AnalyseOptions& options) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::string text;
  for (const auto& name : options.tables) {
    const study::StudyConfig study = study::study_of_closed_form(name);
    const study::ClosedForm& form =
        *std::ranges::find(study.closed_forms, name, &study::ClosedForm::name);
    const auto figures = study::closed_figures(form, study.variants);
    all.push_back(study::to_json(form, figures));
    if (!text.empty()) text += "\n";
    text += report::section_text({.tables = {study::closed_form_table(form, figures)}});
  }
  fmt::print("{}", options.json ? json_text(all, 2) + "\n" : text);
}

void run_analyse(const AnalyseOptions& options) {
  if (!options.tables.empty()) {
    PENSTOCK_CHECK(
        options.model.empty() && options.html.empty() && options.data.empty(),
        "--tables needs no MODEL and no --data, and makes no page: those tables are closed forms "
        "(several tables: A3,A4)");
    return print_tables(options);
  }
  PENSTOCK_CHECK(!options.model.empty(),
                 "give a MODEL or run directory, or --tables A3 or A4 for the closed forms");
  PENSTOCK_CHECK(!options.data.empty(), "give --data CORPUS, whose text the model is to route");
  ops::set_threads(static_cast<int>(options.threads));
  check_can_write(options.html);
  PENSTOCK_CHECK(options.html.ends_with(".html") || !fs::exists(options.html), options.html,
                 ": is there already, and its name is no page's (.html); name another file");
  const EndOnSignal guard(kNothingWritten, {temporary_path(options.html)});
  const analysis::Analysis result = Analyst(options).run();
  if (!options.html.empty())
    write_file_atomically(real_file_system(), options.html, report::analysis_page(result));
  if (options.json)  // a token may be part of a character
    fmt::print("{}\n", json_text(to_json(result), 2));
  else
    fmt::print("{}{}", analysis_text(result),
               options.html.empty() ? "" : fmt::format("\npage: {}\n", options.html));
}

}  // namespace

void add_analyse_command(CLI::App& app) {
  auto options = std::make_shared<AnalyseOptions>();
  CLI::App* command = app.add_subcommand("analyse",
                                         "Measure router entropy, load, flips, experts by token "
                                         "and domain, similarity, gradients of routers, "
                                         "Jacobian ranks");
  command->add_option(
      "MODEL", options->model,
      concat("model (", kModelForms, "), or run directory (step 0 and every kept checkpoint)"));
  command->add_option("--data", options->data, "corpus directory");
  add_field_options(*command, options->overrides, {"split", "sequence_length"});
  command
      ->add_option("--tokens", *options->overrides.max_tokens,
                   "number of tokens for entropy and load, in evenly spaced windows "
                   "(transformer-xl: from the start of each stream); 0: all")
      ->capture_default_str()
      ->check(whole_number(0));
  command
      ->add_option("--samples", options->samples, "number of tokens whose distributions are shown")
      ->capture_default_str()
      ->check(whole_number(0, 256));
  command
      ->add_option("--jacobian-tokens", options->jacobian_tokens,
                   "number of tokens at which Jacobians are computed")
      ->capture_default_str()
      ->check(whole_number(1, 256));
  command->add_flag("--only-best", options->only_best,
                    "only step 0 and the best checkpoint of a run");
  one_value_each(command->add_option("--tables", options->tables,
                                     "compute tables in closed form, beside the papers' numbers: "
                                     "HyperRouter's A3 (FLOPs) and A4 (parameters), ReMoE's "
                                     "remoe-parameters and remoe-flops; A3,A4: both"))
      ->delimiter(',');
  add_threads(*command, options->threads);
  command->add_option("--html", options->html, "write a page with charts to this file");
  add_json(*command, options->json, "print one JSON object; with --tables: an array");
  command->footer(
      "Examples:\n"
      "  penstock analyse runs/hyperrouter --data enwik8 --html routing.html\n"
      "  penstock analyse runs/remoe/checkpoints/step-200 --data corpus --tokens 0 --json\n"
      "  penstock analyse --tables A3,A4");
  command->callback([options] { run_analyse(*options); });
}

}  // namespace penstock
