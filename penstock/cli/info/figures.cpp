#include "penstock/cli/info/figures.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "penstock/base/number_text.h"
#include "penstock/base/progress.h"
#include "penstock/cli/info/layouts.h"
#include "penstock/cli/info/recomputed.h"
#include "penstock/models/counts/flops.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "penstock/train/memory_check.h"

namespace penstock {
namespace {

nlohmann::ordered_json parts_json(const PartCounts& parts) {
  return {{"backbone", parts.backbone},
          {"router", parts.router},
          {"router_embedding", parts.router_embedding},
          {"hypernetwork", parts.hypernetwork}};
}

/// "6.95 GFLOP": the unit of 1000^power FLOPs, or the first smaller one of which there is a tenth.
std::string flops_text(double flops, std::size_t power) {
  constexpr std::array<const char*, 4> kUnits = {"FLOP", "kFLOP", "MFLOP", "GFLOP"};
  double amount = flops / std::pow(1000, power);
  for (; power > 0 && amount < 0.1; --power) amount *= 1000;
  return fmt::format("{:.2f} {}", amount, kUnits[power]);
}

}  // namespace

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

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
  fmt::print("model         {}, d={}, {} ({} kv) of {}, f={}, V={}\n",
             count_text(model.layers, "layer"), model.d_model, count_text(model.heads, "head"),
             model.kv_heads, model.head_dim, model.dense_width(), model.vocab);
  if (model.moe_layers() > 0)
    fmt::print("experts       {} of E={} (f={}), k={:g}, method {}\n",
               count_text(model.moe_layers(), "MoE layer"), model.total_experts(),
               model.expert_width(), model.active_experts(), model.router.method);
  fmt::print("parameters    {} total, {} active, of these {} embedding and {} router\n",
             grouped(figures.counts.total), grouped(figures.counts.active),
             grouped(figures.counts.embedding), grouped(figures.counts.router));
  const PartCounts& parts = figures.counts.by_part;
  if (parts.router != figures.counts.router || parts.hypernetwork > 0)  // frozen or generated
    fmt::print("              {} backbone, {} router, {} router embedding, {} hypernetwork\n",
               grouped(parts.backbone), grouped(parts.router), grouped(parts.router_embedding),
               grouped(parts.hypernetwork));
  fmt::print("FLOPs         {} per sequence of {} ({}), {} per token (useful, training)\n",
             flops_text(figures.flops, 3), recipe.train.sequence_length,
             model.has_memory() ? "useful, training" : "published formula",
             flops_text(figures.flops_per_token, 2));
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
    if (saving > 0)
      fmt::print("              {} {:.0f} {} more to save\n",
                 recipe.parallel.local_steps > 1 ? "rank 0 takes" : "each takes", size(saving),
                 unit);
    if (evaluating > 0)
      fmt::print("              rank 0 takes {:.0f} {} more to evaluate\n", size(evaluating), unit);
    fmt::print(
        "step          about {:.3g} s: computing {:.3g}, update {:.3g}, exchange {:.3g} (given the "
        "speeds)\n",
        parallel["step_seconds"].get<double>(), parallel["compute_seconds"].get<double>(),
        parallel["update_seconds"].get<double>(), parallel["exchange_seconds"].get<double>());
  }
}

}  // namespace penstock
