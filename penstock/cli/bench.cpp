// `penstock bench`: measures the machine, a training step or a layer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/bench/generate_bench.h"
#include "penstock/bench/layer_bench.h"
#include "penstock/bench/machine_bench.h"
#include "penstock/bench/step_bench.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/commands.h"
#include "penstock/io/toml.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/fold_routers.h"
#include "penstock/ops/dispatch.h"
#include "penstock/train/read_recipe.h"

namespace penstock {
namespace {

struct BenchRecipe {
  std::string path;
  std::vector<std::string> overrides;

  Recipe read(const std::vector<std::string>& more = {}) const {
    ConfigNode node = read_toml(path);
    apply_overrides(node, overrides, kSetOption);
    apply_overrides(node, more);
    return read_recipe(node);
  }
};

template <class Result>
void print_result(const Result& result, bool json) {
  if (json)
    fmt::print("{}\n", json_text(to_json(result), 2));
  else
    fmt::print("{}", to_text(result));
}

void add_recipe(CLI::App& command, BenchRecipe& recipe) {
  command.add_option("RECIPE", recipe.path, "recipe (TOML)")->required();
  add_overrides(command, recipe.overrides, "override a key: --set run.threads=1");
}

/// @param timed  the name of the measured things, in the plural
void add_timing(CLI::App& command, bench::BenchOptions& options, const std::string& timed) {
  command.add_option("--steps", options.steps, "timed " + timed)
      ->check(whole_number(1))
      ->capture_default_str();
  command.add_option("--warm-up", options.warm_up, "untimed " + timed + " before the measurement")
      ->check(whole_number(0))
      ->capture_default_str();
  command
      .add_option("--active-experts", options.active_experts,
                  "keep ReLU routing at this mean number of active experts per token")
      ->check(positive_number());
  command.add_flag("--cpu-time", options.cpu_time,
                   "measure processor time, not wall time; for one thread on a busy machine");
  command.add_flag("--stock", options.stock,
                   "also time libtorch operations outside Penstock's operators, at a small cost");
}

void add_machine(CLI::App& bench) {
  struct Options {
    int threads = 0;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "machine", "Measure multiply-add peak, memory bandwidth and the best matrix product");
  add_threads(*command, options->threads);
  add_json(*command, options->json);
  command->footer("Examples:\n  penstock bench machine\n  penstock bench machine --json");
  command->callback([options] {
    print_result(bench::measure_machine(ops::set_threads(options->threads)), options->json);
  });
}

void add_step(CLI::App& bench) {
  struct Options {
    BenchRecipe recipe;
    bench::BenchOptions bench;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "step", "Measure a whole training step of a recipe's model on random tokens");
  add_recipe(*command, options->recipe);
  add_timing(*command, options->bench, "steps");
  add_json(*command, options->json);
  command->footer(
      "Examples:\n"
      "  penstock bench step recipes/bench/e8k1.toml\n"
      "  penstock bench step recipes/bench/remoe-e8.toml --active-experts 1 --json\n"
      "  penstock bench step recipes/bench/dense.toml --set run.threads=1 --steps 20\n"
      "\"ideal\" is the time that a machine with the measured peak and bandwidth needs for the\n"
      "operator's FLOPs and bytes; \"lost\" is the rest. The top rows have the most to gain.\n"
      "docs/performance.md explains every column.");
  command->callback([options] {
    print_result(bench::measure_step(options->recipe.read(), options->bench), options->json);
  });
}

struct LayerArguments {
  BenchRecipe recipe;
  bench::LayerBenchOptions bench;
  std::int64_t experts = 0;
  std::vector<std::int64_t> sweep_experts, sweep_tokens;
  bool json = false;
};

/// The recipe with that number of experts; 0: with its own.
Recipe with_experts(const LayerArguments& options, std::int64_t experts) {
  if (experts == 0) return options.recipe.read();
  Recipe recipe = options.recipe.read({"model.moe.experts=" + std::to_string(experts)});
  PENSTOCK_CHECK(recipe.model.moe_layers() > 0,
                 options.experts > 0 ? "--experts" : "--sweep-experts", ": ", options.recipe.path,
                 " has a dense model, whose layers have no experts; leave the option out, or set "
                 "another model.router.method");
  return recipe;
}

/// Prints a row for each point, or as JSON {"sweep", "points"}.
void run_sweep(const LayerArguments& options) {
  const bool experts = !options.sweep_experts.empty();
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  bench::LayerBenchOptions bench = options.bench;
  for (const std::int64_t value : experts ? options.sweep_experts : options.sweep_tokens) {
    if (!experts) bench.tokens = value;
    const auto layer =
        bench::measure_layer(with_experts(options, experts ? value : options.experts), bench);
    bench.memory_bandwidth = layer.machine.memory_bandwidth;
    if (!options.json) fmt::print("{}", bench::sweep_text(layer, points.empty()));
    std::fflush(stdout);
    points.push_back(bench::sweep_json(layer));
  }
  if (options.json)
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{{"sweep", experts ? "experts" : "tokens"}, {"points", points}}.dump(
            2));
}

void add_layer(CLI::App& bench) {
  const auto options = std::make_shared<LayerArguments>();
  CLI::App* command = bench.add_subcommand(
      "layer", "Measure a single feed-forward layer, dense or MoE: forward, backward, optimizer");
  add_recipe(*command, options->recipe);
  auto* tokens = command
                     ->add_option("--tokens", options->bench.tokens,
                                  "number of tokens; default: the recipe's micro-batch")
                     ->check(whole_number(1));
  auto* experts = command
                      ->add_option("--experts", options->experts,
                                   "number of experts before granularity, in place of the recipe's")
                      ->check(whole_number(1));
  auto* sweep_experts = command
                            ->add_option("--sweep-experts", options->sweep_experts,
                                         "one row for each of these numbers of experts")
                            ->delimiter(',')
                            ->check(whole_number(1))
                            ->excludes(experts);
  one_value_each(sweep_experts);
  one_value_each(command
                     ->add_option("--sweep-tokens", options->sweep_tokens,
                                  "one row for each of these numbers of tokens")
                     ->delimiter(',')
                     ->check(whole_number(1))
                     ->excludes(sweep_experts)
                     ->excludes(tokens));
  add_timing(*command, options->bench, "passes");
  add_json(*command, options->json);
  command->footer(
      "Examples:\n"
      "  penstock bench layer recipes/bench/e64k8.toml\n"
      "  penstock bench layer recipes/bench/e64k8.toml --sweep-experts 8,16,32,64,128,256,512\n"
      "  penstock bench layer recipes/bench/e64k8.toml --sweep-tokens 512,1024,2048,4096 --json\n"
      "bench/plot_sweep.py draws the JSON of a sweep as a page.");
  command->callback([options] {
    if (!options->sweep_experts.empty() || !options->sweep_tokens.empty())
      return run_sweep(*options);
    print_result(bench::measure_layer(with_experts(*options, options->experts), options->bench),
                 options->json);
  });
}

void add_generate(CLI::App& bench) {
  struct Options {
    std::string model;
    bench::GenerateBenchOptions bench;
    int threads = 0;
    bool fold = false, exact = false, json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "generate", "Measure the speed of prompt processing and generation, and what limits it");
  command->add_option("MODEL", options->model, "model of any format, or run directory")->required();
  const auto count = [&](const char* name, std::int64_t& value, const char* help) {
    return command->add_option(name, value, help)->check(whole_number(1));
  };
  count("--prompt", options->bench.prompt,
        "number of tokens in the prompt; not given: 512, or what a shorter context leaves");
  count("--tokens", options->bench.tokens,
        "number of tokens generated after the prompt; not given: 128, or what a shorter context "
        "leaves");
  count("--batch", options->bench.batch, "number of sequences generated together")
      ->capture_default_str();
  count("--repetitions", options->bench.repetitions,
        "number of repetitions, whose median is printed")
      ->capture_default_str();
  add_threads(*command, options->threads);
  command->add_flag("--fold", options->fold,
                    "fold each router into one matrix and bias before generation");
  command->add_flag(
      "--exact", options->exact,
      "do not round activations to 8 bits, nor long prompts to bf16, for weights in Q4_K or "
      "Q6_K");
  add_json(*command, options->json);
  command->footer(
      "Examples:\n"
      "  penstock bench generate runs/moe\n"
      "  penstock bench generate runs/moe --prompt 128 --tokens 64 --batch 8 --json\n"
      "Generation reads every active weight in each step. The share of the memory bandwidth\n"
      "shows how close this comes to the machine's limit.");
  command->callback([options] {
    options->bench.threads = ops::set_threads(options->threads);
    auto model = load_for_inference(open_model_source(model_argument(options->model).path),
                                    options->fold    ? Weights::as_f32
                                    : options->exact ? Weights::in_place
                                                     : Weights::in_place_int8);
    if (options->fold) model = fold_routers(*model);
    print_result(bench::measure_generate(model, options->bench), options->json);
  });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure the speed of the machine, training steps, layers and generation");
  bench->require_subcommand(1);
  bench->footer(
      "Examples:\n"
      "  penstock bench machine\n"
      "  penstock bench step recipes/bench/e64k8.toml\n"
      "  penstock bench layer recipes/bench/e64k8.toml --sweep-experts 8,64,512");
  add_machine(*bench);
  add_step(*bench);
  add_layer(*bench);
  add_generate(*bench);
}

}  // namespace penstock
