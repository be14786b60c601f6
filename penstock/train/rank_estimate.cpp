#include "penstock/train/rank_estimate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "penstock/models/tensor_slices.h"
#include "penstock/train/objective.h"
#include "penstock/train/sharing_bytes.h"

namespace penstock {
namespace {

constexpr double kBytes = 4;  // of a number

std::int64_t elements(const Slice& slice) {
  const auto shape = slice.part_shape();
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// What a rank holds: experts apart, whose gradients other ranks share.
struct Held {
  std::vector<ParameterSize> dense, experts;
};

Held held_by(const ModelConfig& config, const dist::Layout& layout, int rank, int chunks) {
  const auto of_experts = expert_parameters(config);
  std::set<std::string> buffers;
  for (const ModelTensor& tensor : model_tensors(config))
    if (tensor.role == TensorRole::balancer) buffers.insert(tensor.module);
  Held out;
  for (const auto& [name, slice] : model_slices(config, part_of_rank(config, layout, rank, chunks)))
    if (!buffers.contains(name))
      (layout.expert > 1 && of_experts.contains(name) ? out.experts : out.dense)
          .push_back({.name = name, .elements = elements(slice)});
  return out;
}

/// Numbers of a recipe under a layout that several of the sums below need.
struct Shape {
  double parts = 1;       ///< of a data rank
  double rows = 1;        ///< numbers of the rows of a micro-batch, T·d
  double layers = 1;      ///< of a stage
  double moe_layers = 0;  ///< of a stage
  double passes = 1;
};

Shape shape_of(const Recipe& recipe, const dist::Layout& layout) {
  const TrainConfig& train = recipe.train;
  const ModelConfig& model = recipe.model;
  const double stages = layout.pipeline;
  return {.parts = static_cast<double>(train.batch_sequences / train.micro_batch) / layout.data,
          .rows = static_cast<double>(train.micro_batch * train.sequence_length * model.d_model),
          .layers = std::ceil(static_cast<double>(model.layers) / stages),
          .moe_layers = std::ceil(static_cast<double>(model.moe_layers()) / stages),
          .passes = static_cast<double>(training_objective(model).passes)};
}

/// A kind of traffic: bytes that a rank sends, and messages.
struct Sent {
  const char* kind;
  double bytes = 0, messages = 0;
};

Sent tensor_traffic(const Shape& shape, const dist::Layout& layout) {
  if (layout.tensor == 1) return {"tensor"};
  const double t = layout.tensor, sums = 4 * shape.layers * shape.parts * shape.passes;
  return {"tensor", sums * 2 * (t - 1) / t * shape.rows * kBytes, sums * 2 * (t - 1)};
}

Sent stage_traffic(const Shape& shape, const dist::Layout& layout, int chunks) {
  if (layout.pipeline == 1) return {"stages"};
  const double messages = 2 * shape.parts * chunks;
  return {"stages", messages * shape.rows * kBytes, messages};
}

Sent token_traffic(const Recipe& recipe, const Shape& shape, const dist::Layout& layout) {
  if (layout.expert == 1) return {"tokens"};
  const double e = layout.expert, k = recipe.model.active_experts();
  const double others = (e - 1) * (1 - std::pow(1 - 1 / e, k));
  const double exchanges = 4 * shape.moe_layers * shape.parts * shape.passes;
  return {"tokens", exchanges * others * shape.rows * kBytes, exchanges * 2 * (e - 1)};
}

/// What a stage's rank holds for the optimizer, and what it sends for it.
struct Optimizer {
  TrainingMemory memory;
  std::int64_t exchange = 0;
  double gradients = 0, sums = 0;  // bytes sent in a step

  void add(const std::vector<ParameterSize>& parameters, const SharedSteps& steps) {
    if (parameters.empty()) return;
    const SharingBytes bytes = sharing_bytes(parameters, steps);
    memory.parameter_bytes += bytes.parameters;
    memory.gradient_bytes += bytes.gradients;
    memory.optimizer_bytes += bytes.optimizer;
    exchange = std::max(exchange, bytes.exchange);
    gradients += static_cast<double>(bytes.sent_gradients);
    sums += static_cast<double>(bytes.sent_sums + bytes.sent_weights);
  }
};

/// Of ranks that train apart: that of one process, and of the outer steps what a rank keeps for
/// all, their weights and momentum.
Optimizer optimizer_apart(const std::vector<ParameterSize>& parameters, const SharedSteps& steps,
                          double local_steps) {
  const auto ranks = static_cast<std::size_t>(steps.ranks);
  Optimizer out;
  out.add(parameters, {.parts = (steps.parts + ranks - 1) / ranks, .passes = steps.passes});
  const SharingBytes outer =
      sharing_bytes(parameters, {.parts = ranks, .ranks = steps.ranks, .zero = 1});
  out.memory.optimizer_bytes += outer.optimizer;
  out.exchange = outer.exchange;
  out.gradients = static_cast<double>(outer.sent_gradients) / local_steps;
  out.sums = static_cast<double>(outer.sent_weights) / local_steps;
  return out;
}

Optimizer optimizer_of(const Recipe& recipe, const ModelConfig& config, const dist::Layout& layout,
                       int stage, SharedSteps steps) {
  const int rank = rank_at(layout, {.pipeline = stage});
  const Held held =
      held_by(config, layout, rank, static_cast<int>(recipe.parallel.pipeline_chunks));
  if (recipe.parallel.local_steps > 1)
    return optimizer_apart(held.dense, steps, static_cast<double>(recipe.parallel.local_steps));
  Optimizer out;
  out.add(held.dense, steps);
  steps.parts /= static_cast<std::size_t>(layout.expert);
  steps.ranks /= layout.expert;
  out.add(held.experts, steps);
  return out;
}

/// Stages differ; the ranks of the other axes hold as much as each other.
Optimizer largest_optimizer(const Recipe& recipe, const dist::Layout& layout, const Shape& shape) {
  const TrainConfig& train = recipe.train;
  const ModelConfig config = recipe.model.resolved();
  const SharedSteps steps{
      .parts = static_cast<std::size_t>(train.batch_sequences / train.micro_batch),
      .ranks = layout.data,
      .zero = static_cast<int>(recipe.parallel.zero),
      .passes = static_cast<int>(shape.passes)};
  Optimizer out;
  for (int stage = 0; stage < layout.pipeline; ++stage) {
    const Optimizer one = optimizer_of(recipe, config, layout, stage, steps);
    if (one.memory.total() > out.memory.total()) out.memory = one.memory;
    out.exchange = std::max(out.exchange, one.exchange);
    out.gradients = std::max(out.gradients, one.gradients);
    out.sums = std::max(out.sums, one.sums);
  }
  return out;
}

std::int64_t activation_bytes(const Recipe& recipe, const dist::Layout& layout,
                              const Shape& shape) {
  const TrainConfig& train = recipe.train;
  const double one =
      static_cast<double>(training_memory(recipe.model, train.micro_batch, train.sequence_length,
                                          train.recompute_experts)
                              .activation_bytes);
  const double in_flight = std::min<double>(shape.parts, layout.pipeline);
  return static_cast<std::int64_t>(one * in_flight / (layout.pipeline * layout.tensor));
}

}  // namespace

RankEstimate estimate_rank(const Recipe& recipe, const dist::Layout& layout,
                           const MachineSpeeds& speeds) {
  const TrainConfig& train = recipe.train;
  const int chunks = static_cast<int>(recipe.parallel.pipeline_chunks);
  const std::int64_t local_steps = recipe.parallel.local_steps;
  const bool weights = recipe.parallel.zero > 0 || local_steps > 1;
  const Shape shape = shape_of(recipe, layout);
  const Optimizer optimizer = largest_optimizer(recipe, layout, shape);
  RankEstimate out{
      .ranks = layout.ranks(), .memory = optimizer.memory, .exchange_bytes = optimizer.exchange};
  out.memory.activation_bytes = activation_bytes(recipe, layout, shape);
  const double messages = (shape.layers + 1) * (layout.data - 1) / static_cast<double>(local_steps);
  const Sent gradients{"gradients", optimizer.gradients, messages},
      sums{weights ? "weights" : "summed_gradients", optimizer.sums, messages};
  const auto seconds = [&](const Sent& sent) {
    return sent.bytes / speeds.bandwidth + sent.messages * speeds.latency;
  };
  for (const Sent& sent :
       {gradients, sums, tensor_traffic(shape, layout), stage_traffic(shape, layout, chunks),
        token_traffic(recipe, shape, layout)}) {
    if (sent.bytes == 0) continue;
    out.bytes_per_step.emplace_back(sent.kind, static_cast<std::int64_t>(sent.bytes));
    out.exchange_seconds += seconds(sent);
  }
  const double flops =
      nominal_training_flops(recipe.model, train.batch_sequences, train.sequence_length);
  const double busy = flops / layout.ranks() / speeds.flops;
  out.compute_seconds = busy * (1 + (layout.pipeline - 1) / (chunks * shape.parts));
  const double hidden = seconds(gradients) + (weights ? 0 : seconds(sums));
  const double behind = recipe.parallel.overlap && local_steps == 1
                            ? std::min(hidden, 2.0 / 3 * busy / shape.parts)
                            : 0;
  out.step_seconds = out.compute_seconds + out.exchange_seconds - behind;
  return out;
}

}  // namespace penstock
