#include "penstock/cli/info.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/cli/model_argument.h"
#include "penstock/io/toml.h"
#include "penstock/models/census.h"
#include "penstock/models/model_directory.h"
#include "penstock/train/recipe.h"

namespace penstock {
namespace {

struct InfoOptions {
  std::string target;
  std::vector<std::string> overrides;
  bool json = false;
};

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void print_info(const InfoOptions& options) {
  Recipe recipe;
  if (std::filesystem::is_directory(options.target)) {
    PENSTOCK_CHECK(options.overrides.empty(), options.target,
                   ": --set changes a recipe, not a model that exists");
    recipe.model = read_model_config(model_argument(options.target));
    recipe.train.sequence_length = recipe.model.context;
    recipe.train.micro_batch = 1;
  } else {
    ConfigNode node = read_toml(options.target);
    apply_overrides(node, options.overrides);
    recipe = read_recipe(node);
    // A recipe that takes its corpus's vocabulary: count with bytes.
    if (recipe.model.vocab == 0) recipe.model.vocab = 256;
  }
  const ModelConfig& model = recipe.model;
  const std::int64_t length = recipe.train.sequence_length;
  const ParameterCensus census = count_parameters(model);
  const double flops = published_flops_per_sequence(model, length);
  const auto tokens = static_cast<double>(length);
  const double useful = useful_training_flops(
      model, tokens, causal_pairs(1, length),
      tokens * static_cast<double>(model.moe_layers()) * model.active_experts());
  const TrainingMemory memory = training_memory(model, recipe.train.micro_batch, length);
  if (options.json) {
    const nlohmann::ordered_json out = {{"total_parameters", census.total},
                                        {"active_parameters", census.active},
                                        {"embedding_parameters", census.embedding},
                                        {"router_parameters", census.router},
                                        {"flops_per_sequence", flops},
                                        {"useful_training_flops_per_token", useful / tokens},
                                        {"sequence_length", length},
                                        {"training_memory_bytes", memory.total()},
                                        {"model",
                                         {{"d_model", model.d_model},
                                          {"layers", model.layers},
                                          {"moe_layers", model.moe_layers()},
                                          {"experts", model.total_experts()},
                                          {"active_experts", model.active_experts()},
                                          {"method", model.router.method}}}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print("model         {} layers, d={}, {} heads ({} kv) of {}, f={}, V={}\n", model.layers,
             model.d_model, model.heads, model.kv_heads, model.head_dim, model.d_ffn, model.vocab);
  if (model.moe_layers() > 0)
    fmt::print("experts       {} MoE layers of E={} (f={}), k={:g}, method {}\n",
               model.moe_layers(), model.total_experts(), model.expert_width(),
               model.active_experts(), model.router.method);
  fmt::print("parameters    {} total, {} active, of these {} embedding and {} router\n",
             grouped(census.total), grouped(census.active), grouped(census.embedding),
             grouped(census.router));
  fmt::print(
      "FLOPs         {:.2f} GFLOP per sequence of {} (published formula), {:.2f} MFLOP per token "
      "(useful, training)\n",
      flops / 1e9, length, useful / tokens / 1e6);
  fmt::print(
      "memory        {:.0f} MiB to train: weights {:.0f}, gradients {:.0f}, AdamW {:.0f}, "
      "activations about {:.0f} (micro-batch {})\n",
      mebibytes(memory.total()), mebibytes(memory.parameter_bytes),
      mebibytes(memory.gradient_bytes), mebibytes(memory.optimizer_bytes),
      mebibytes(memory.activation_bytes), recipe.train.micro_batch);
}

}  // namespace

void add_info_command(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* command =
      app.add_subcommand("info", "Parameters, FLOPs and memory of a recipe or a model");
  command->add_option("RECIPE", options->target, "recipe (TOML), model directory or run directory")
      ->required();
  command->add_option("--set", options->overrides, "override a key: --set model.moe.experts=16")
      ->expected(1)
      ->take_all();
  command->add_flag("--json", options->json, "one JSON object");
  command->footer(
      "Examples:\n"
      "  penstock info recipes/remoe/remoe-182m.toml\n"
      "  penstock info recipes/demo/remoe.toml --set model.moe.granularity=4 --json");
  command->callback([options] { print_info(*options); });
}

}  // namespace penstock
