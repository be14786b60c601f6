#include "penstock/cli/info.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/info_layouts.h"
#include "penstock/cli/info_recomputed.h"
#include "penstock/data/corpus.h"
#include "penstock/finetune/run.h"
#include "penstock/finetune/run_record.h"
#include "penstock/io/toml.h"
#include "penstock/models/flops.h"
#include "penstock/models/model_directory.h"
#include "penstock/models/model_source.h"
#include "penstock/models/parameter_count.h"
#include "penstock/models/training_memory.h"
#include "penstock/study/study_config.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "penstock/train/layouts/rank_estimate.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/recipe.h"

namespace penstock {
namespace {

struct InfoOptions {
  std::string target, scale;
  std::vector<std::string> overrides;
  bool json = false;
  MachineSpeeds speeds;
  LayoutQuestion layouts;
};

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// What a recipe or model comes to.
struct Figures {
  ParameterCounts counts;
  double flops = 0;            // per sequence, published formula
  double flops_per_token = 0;  // useful, training
  TrainingMemory memory;
  RecomputeChoice recomputation;
};

Figures figures_of(const Recipe& recipe) {
  const ModelConfig& model = recipe.model;
  const std::int64_t length = recipe.train.sequence_length, rows = recipe.train.micro_batch;
  const double step = nominal_training_flops(model, rows, length);
  const CountedTraining training = count_training(recipe, processes_of(recipe));
  check_memory_budget(recipe, training.recomputation);
  return {.counts = count_parameters(model),
          // The published formula knows neither relative positions nor memory.
          .flops = model.has_memory() ? step / static_cast<double>(rows)
                                      : published_flops_per_sequence(model, length),
          .flops_per_token = step / static_cast<double>(rows * length),
          .memory = training.memory,
          .recomputation = training.recomputation};
}

nlohmann::ordered_json parts_json(const PartCounts& parts) {
  return {{"backbone", parts.backbone},
          {"router", parts.router},
          {"router_embedding", parts.router_embedding},
          {"hypernetwork", parts.hypernetwork}};
}

/// Of one of the processes; null where there is one.
nlohmann::ordered_json parallel_json(const Recipe& recipe, const MachineSpeeds& speeds) {
  const int ranks = processes_of(recipe);
  if (ranks == 1) return nullptr;
  return estimate_json(estimate_rank(recipe, layout_of(recipe, ranks), speeds));
}

nlohmann::ordered_json figures_json(const Recipe& recipe) {
  const ModelConfig& model = recipe.model;
  const Figures figures = figures_of(recipe);
  return {{"total_parameters", figures.counts.total},
          {"active_parameters", figures.counts.active},
          {"embedding_parameters", figures.counts.embedding},
          {"router_parameters", figures.counts.router},
          {"parameters_by_part", parts_json(figures.counts.by_part)},
          {"flops_per_sequence", figures.flops},
          {"useful_training_flops_per_token", figures.flops_per_token},
          {"sequence_length", recipe.train.sequence_length},
          {"training_memory_bytes", figures.memory.total()},
          {"recomputed", recomputed_json(figures.recomputation)},
          {"checkpoint_copy_bytes", checkpoint_copy_bytes(recipe)},
          {"model",
           {{"architecture", word(model.architecture)},
            {"d_model", model.d_model},
            {"layers", model.layers},
            {"moe_layers", model.moe_layers()},
            {"experts", model.total_experts()},
            {"active_experts", model.active_experts()},
            {"method", model.router.method}}}};
}

void print_figures(const Recipe& recipe, const MachineSpeeds& speeds) {
  const ModelConfig& model = recipe.model;
  const Figures figures = figures_of(recipe);
  fmt::print("model         {} layers, d={}, {} heads ({} kv) of {}, f={}, V={}\n", model.layers,
             model.d_model, model.heads, model.kv_heads, model.head_dim, model.dense_width(),
             model.vocab);
  if (model.moe_layers() > 0)
    fmt::print("experts       {} MoE layers of E={} (f={}), k={:g}, method {}\n",
               model.moe_layers(), model.total_experts(), model.expert_width(),
               model.active_experts(), model.router.method);
  fmt::print("parameters    {} total, {} active, of these {} embedding and {} router\n",
             grouped(figures.counts.total), grouped(figures.counts.active),
             grouped(figures.counts.embedding), grouped(figures.counts.router));
  const PartCounts& parts = figures.counts.by_part;
  if (parts.router != figures.counts.router || parts.hypernetwork > 0)  // frozen or generated
    fmt::print("              {} backbone, {} router, {} router embedding, {} hypernetwork\n",
               grouped(parts.backbone), grouped(parts.router), grouped(parts.router_embedding),
               grouped(parts.hypernetwork));
  fmt::print(
      "FLOPs         {:.2f} GFLOP per sequence of {} ({}), {:.2f} MFLOP per token (useful, "
      "training)\n",
      figures.flops / 1e9, recipe.train.sequence_length,
      model.has_memory() ? "useful, training" : "published formula", figures.flops_per_token / 1e6);
  const TrainingMemory& memory = figures.memory;
  const bool small = memory.total() < 10 << 20;
  const char* const unit = small ? "KiB" : "MiB";
  const auto size = [&](std::int64_t bytes) { return mebibytes(bytes) * (small ? 1024 : 1); };
  fmt::print(
      "memory        {:.0f} {} to train: weights {:.0f}, gradients {:.0f}, AdamW {:.0f}, "
      "activations about {:.0f} (micro-batch {})\n",
      size(memory.total()), unit, size(memory.parameter_bytes), size(memory.gradient_bytes),
      size(memory.optimizer_bytes), size(memory.activation_bytes), recipe.train.micro_batch);
  if (const RecomputeChoice& again = figures.recomputation; again.again > 0)
    fmt::print("recomputed    {}\n", recomputation_text(again));
  if (const std::int64_t copy = checkpoint_copy_bytes(recipe); copy > 0)
    fmt::print("checkpoints   {:.0f} {} more to write them while training goes on\n", size(copy),
               unit);
  if (const auto parallel = parallel_json(recipe, speeds); !parallel.is_null()) {
    std::int64_t sent = 0;
    for (const auto& of_kind : parallel["bytes_per_step"]) sent += of_kind.get<std::int64_t>();
    fmt::print(
        "processes     {}, each with that memory and {:.0f} {} for the exchange; the busiest sends "
        "{:.0f} {} a step\n",
        processes_of(recipe), size(parallel["exchange_bytes"].get<std::int64_t>()), unit,
        size(sent), unit);
    const auto saving = parallel["checkpoint_bytes"].get<std::int64_t>(),
               evaluating = parallel["evaluation_bytes"].get<std::int64_t>();
    if (saving + evaluating > 0)
      fmt::print("              {} {:.0f} {} more to save, rank 0 {:.0f} {} to evaluate\n",
                 recipe.parallel.local_steps > 1 ? "rank 0 takes" : "each takes", size(saving),
                 unit, size(evaluating), unit);
    fmt::print(
        "step          about {:.3g} s: computing {:.3g}, update {:.3g}, exchange {:.3g} (given the "
        "speeds)\n",
        parallel["step_seconds"].get<double>(), parallel["compute_seconds"].get<double>(),
        parallel["update_seconds"].get<double>(), parallel["exchange_seconds"].get<double>());
  }
}

/// Of a recipe that takes its corpus's, and whose corpus is not there: that of bytes.
constexpr std::int64_t kAssumedVocabulary = 256;

/// A recipe whose vocabulary is settled: its own, or that of its corpus.
struct CountableRecipe {
  Recipe recipe;
  bool assumed = false;  ///< neither is there
};

CountableRecipe countable(const ConfigNode& node) {
  CountableRecipe out{.recipe = read_recipe(node)};
  std::int64_t& vocab = out.recipe.model.vocab;
  if (vocab > 0) return out;
  std::error_code none;
  const std::string& corpus = out.recipe.data.corpus;
  out.assumed = corpus.empty() || !std::filesystem::exists(corpus + "/corpus.json", none);
  vocab = out.assumed ? kAssumedVocabulary : Corpus::open(corpus).vocab_size();
  return out;
}

/// Says that the count is not of the corpus's vocabulary.
void print_assumed_vocabulary() {
  fmt::print("note: counted with a vocabulary of {}; the corpus decides (--set model.vocab=N)\n",
             kAssumedVocabulary);
}

/// Why the weights in a model's folder are not those of its config; "" where they are, or where
/// there are none.
std::string why_weights_do_not_fit(const std::string& directory) {
  if (!std::filesystem::is_directory(directory)) return "";
  const std::filesystem::directory_iterator files(directory);
  if (std::ranges::none_of(files, [](const auto& file) {
        return file.path().extension() == ".safetensors" &&
               !file.path().filename().string().starts_with("optimizer");
      }))
    return "";
  try {
    open_model_source(directory);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A model that exists, trained as its run's config.toml says where `target` is a run, or else with
/// one sequence of its context at a time.
Recipe recipe_of_model(const std::string& target) {
  const std::string directory = model_argument(target).path, run = target + "/config.toml";
  Recipe recipe;
  const bool trained =
      directory != target && std::filesystem::exists(run) && !is_finetuning(target);
  if (trained) recipe = read_recipe(read_toml(run));
  recipe.model = read_model_config(directory);
  if (!trained) {
    recipe.train.sequence_length = recipe.model.context;
    recipe.train.micro_batch = 1;
  }
  if (is_finetuning(target)) return recipe;  // its folder holds a head, too
  if (const auto why = why_weights_do_not_fit(directory); !why.empty())
    recipe.notes.push_back("counted by its config, which its weights do not fit: " + why);
  return recipe;
}

/// What a fine-tuning is of and, once it has finished, what came of it.
nlohmann::ordered_json finetuning_json(const std::string& run_directory) {
  const FinetuneRecord record = read_finetune_record(run_directory);
  nlohmann::ordered_json out = {
      {"task", record.task}, {"pretrained_model", record.model}, {"data", record.data}};
  const std::string result = run_directory + "/" + kFinetuneResult;
  if (!std::filesystem::exists(result)) return out;
  const auto finished = nlohmann::ordered_json::parse(real_file_system().read(result));
  for (const char* key : {"best_step", "accuracy", "selection_k", "majority_accuracy", "by_k"})
    out[key] = finished.at(key);
  return out;
}

void print_finetuning(const std::string& run_directory) {
  const auto about = finetuning_json(run_directory);
  fmt::print("fine-tuned    {} on {}, from {}\n", about["task"].get<std::string>(),
             about["data"].get<std::string>(), about["pretrained_model"].get<std::string>());
  if (!about.contains("by_k")) {
    fmt::print("              not finished yet\n");
    return;
  }
  std::string accuracies;
  for (const auto& point : about["by_k"])
    accuracies += fmt::format("{}{:.2f} %{}", accuracies.empty() ? "" : ", ",
                              100 * point["accuracy"].get<double>(),
                              point["k"].is_null() ? "" : " at k=" + point["k"].dump());
  fmt::print("              accuracy {}; majority class {:.2f} %; step {}\n", accuracies,
             100 * about["majority_accuracy"].get<double>(), about["best_step"].dump());
}

void print_study(const InfoOptions& options) {
  const auto study = study::read_study(options.target, options.overrides, options.scale);
  if (options.json) {
    nlohmann::ordered_json variants = nlohmann::ordered_json::object();
    for (const auto& variant : study.variants) {
      if (!variant.from.empty()) {  // the model that it begins with says what it is
        variants[variant.name] = {{"from", variant.from}};
        continue;
      }
      const CountableRecipe counted = countable(variant.recipe);
      auto& figures = variants[variant.name] = figures_json(counted.recipe);
      if (counted.assumed) figures["assumed_vocabulary"] = kAssumedVocabulary;
    }
    const nlohmann::ordered_json out = {{"study", study.name},
                                        {"scale", study.scale},
                                        {"seeds", study.seeds},
                                        {"variants", variants}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print("study {}{}: {} variants, {} seeds; run it with: penstock study {}{}\n\n", study.name,
             study.scale.empty() ? "" : ", scale " + study.scale, study.variants.size(),
             study.seeds.size(), shell_quoted(options.target),
             study.scale.empty() ? "" : " --scale " + shell_quoted(study.scale));
  fmt::print("{:<24} {:<14} {:>15} {:>15} {:>12} {:>9} {:>8}\n", "variant", "method", "parameters",
             "active", "MFLOP/token", "memory", "steps");
  bool assumed = false;
  for (const auto& variant : study.variants) {
    if (!variant.from.empty()) {
      fmt::print("{:<24} from {}{}\n", variant.name, variant.from,
                 variant.upcycle.empty() ? "" : ", upcycled");
      continue;
    }
    const auto [recipe, unknown] = countable(variant.recipe);
    assumed |= unknown;
    const Figures figures = figures_of(recipe);
    fmt::print("{:<24} {:<14} {:>15} {:>15} {:>12.2f} {:>5.0f} MiB {:>8}\n", variant.name,
               recipe.model.router.method, grouped(figures.counts.total),
               grouped(figures.counts.active), figures.flops_per_token / 1e6,
               mebibytes(figures.memory.total()),
               variant.match_compute.empty() ? grouped(recipe.train.steps) : "matched");
  }
  if (assumed) print_assumed_vocabulary();
}

void print_info(const InfoOptions& options) {
  const LayoutQuestion& layouts = options.layouts;
  PENSTOCK_CHECK(layouts.ranks > 0 || layouts.memory == 0,
                 "--memory is for the layouts of --ranks N; give that too");
  Recipe recipe;
  bool assumed = false;
  if (std::filesystem::is_directory(options.target) || is_model_file(options.target)) {
    PENSTOCK_CHECK(options.scale.empty(), options.target, ": --scale is for studies");
    PENSTOCK_CHECK(options.overrides.empty(), options.target,
                   ": --set changes a recipe, not a model that exists");
    PENSTOCK_CHECK(layouts.ranks == 0, options.target,
                   ": --ranks is for recipes, which say what a step is");
    recipe = recipe_of_model(options.target);
  } else {
    ConfigNode node = read_toml(options.target);
    for (const char* of_studies : {"variants", "like", "report"})
      if (node.find(of_studies)) {
        PENSTOCK_CHECK(layouts.ranks == 0, options.target,
                       ": a study's runs are of one process; --ranks is for recipes");
        return print_study(options);
      }
    PENSTOCK_CHECK(options.scale.empty(), options.target, ": --scale is for studies");
    apply_overrides(node, options.overrides);
    CountableRecipe counted = countable(node);
    recipe = std::move(counted.recipe);
    assumed = counted.assumed;
    if (layouts.ranks > 0) {
      print_layouts(recipe, layouts, options.speeds, options.json);
      if (assumed && !options.json) print_assumed_vocabulary();
      return;
    }
    layout_of(recipe, processes_of(recipe));
  }
  const bool finetuned =
      std::filesystem::is_directory(options.target) && is_finetuning(options.target);
  if (options.json) {
    auto figures = figures_json(recipe);
    if (finetuned) figures["finetuning"] = finetuning_json(options.target);
    if (!recipe.notes.empty()) figures["notes"] = recipe.notes;
    if (assumed) figures["assumed_vocabulary"] = kAssumedVocabulary;
    if (auto parallel = parallel_json(recipe, options.speeds); !parallel.is_null())
      figures["parallel"] = std::move(parallel);
    fmt::print("{}\n", figures.dump(2));
    return;
  }
  print_figures(recipe, options.speeds);
  if (finetuned) print_finetuning(options.target);
  for (const auto& note : recipe.notes) fmt::print("note: {}\n", note);
  if (assumed) print_assumed_vocabulary();
}

CLI::Option* add_number(CLI::App& command, const char* name, double& value, const char* help) {
  auto* const option = command.add_option(name, value, help)->check(positive_number());
  return value > 0 ? option->capture_default_str() : option;
}

/// What the estimate of a step of several processes is made of.
void add_speeds(CLI::App& command, MachineSpeeds& speeds) {
  add_number(command, "--flops", speeds.flops,
             "useful FLOP/s of one process, for the estimate of several processes' step");
  add_number(command, "--bandwidth", speeds.bandwidth,
             "bytes/s that one process sends to another machine");
  add_number(command, "--latency", speeds.latency, "seconds of a message");
  add_number(command, "--node-bandwidth", speeds.node_bandwidth,
             "bytes/s that one process sends to another of its machine; default --bandwidth");
  add_number(
      command, "--memory-bandwidth", speeds.memory_bandwidth,
      "bytes/s of memory that one process reads and writes; default: such work is not counted");
  add_number(
      command, "--exchange-cost", speeds.exchange_cost,
      "seconds that a byte sent and received takes of a core that would compute; default: the "
      "exchange has cores of its own");
  command
      .add_option("--rank-load", speeds.rank_load,
                  "rows that the experts of the busiest rank compute, over the mean of all ranks: "
                  "rank_load.max of metrics.jsonl")
      ->check(CLI::Range(1.0, 1e6))
      ->check(positive_number())  // NaN is in every range
      ->capture_default_str();
  command
      .add_option("--node-ranks", speeds.node_ranks,
                  "processes of one machine, whose ranks are consecutive")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
}

void add_layouts(CLI::App& command, LayoutQuestion& layouts) {
  command
      .add_option("--ranks", layouts.ranks,
                  "the fastest layouts of so many processes, by the estimate, in the place of the "
                  "recipe's [parallel]")
      ->check(CLI::Range(1, 1 << 16));
  add_number(command, "--memory", layouts.memory, "of --ranks: bytes that each process has");
  command.add_option("--layouts", layouts.shown, "of --ranks: how many are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

}  // namespace

void add_info_command(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand(
      "info", "Parameters, FLOPs and memory of a recipe, a model or a study's variants");
  command
      ->add_option(
          "RECIPE", options->target,
          "recipe or study (TOML), model (directory, llama2.c .bin or .gguf) or run directory")
      ->required();
  add_overrides(*command, options->overrides, "override a key: --set model.moe.experts=16");
  command->add_option("--scale", options->scale, "of a study: paper, desk; default desk");
  add_json(*command, options->json);
  add_speeds(*command, options->speeds);
  add_layouts(*command, options->layouts);
  command->footer(
      "Examples:\n"
      "  penstock info recipes/remoe/remoe-182m.toml\n"
      "  penstock info recipes/demo/remoe.toml --set model.moe.granularity=4 --json\n"
      "  penstock info recipes/remoe/remoe-182m.toml --set parallel.data=8 --set "
      "parallel.expert=4\n"
      "  penstock info recipes/remoe/remoe-182m.toml --ranks 16 --memory 16e9 --bandwidth 3e9\n"
      "  penstock info recipes/demo/study.toml\n"
      "  penstock info table1.toml --scale paper");
  command->callback([options] { print_info(*options); });
}

}  // namespace penstock
