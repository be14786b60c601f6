#include "penstock/train/layouts/rank_estimate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "penstock/dist/text_capacity.h"
#include "penstock/models/counts/flops.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/ops/square_sums.h"
#include "penstock/train/layouts/optimizer_estimate.h"
#include "penstock/train/layouts/rank_traffic.h"
#include "penstock/train/step/objective.h"
#include "penstock/train/step/part_record.h"
#include "penstock/train/step/pipeline_schedule.h"

namespace penstock {
namespace {

using rank_traffic::kBytes;
using rank_traffic::seconds_of_memory;
using rank_traffic::Sent;

std::int64_t elements(const Slice& slice) {
  const auto shape = slice.part_shape();
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// Whether all ranks are on one machine, where they share memory.
bool on_one_machine(const dist::Layout& layout, const MachineSpeeds& speeds) {
  return speeds.shared_memory && layout.ranks() <= speeds.node_ranks;
}

}  // namespace

/// Numbers of a recipe with a layout that several functions below need.
struct RankEstimator::Shape {
  std::int64_t parts = 1;  ///< micro-batches of a step
  double own = 1;          ///< the most micro-batches of a data rank
  double rows = 1;         ///< elements of the rows of a micro-batch, T·d
  double held = 1;         ///< elements of the rows that a rank holds between GEMMs
  double layers = 1;       ///< of a stage
  double moe_layers = 0;   ///< of a stage
  double passes = 1;
  int chunks = 1;
};

RankEstimator::RankEstimator(const Recipe& recipe)
    : recipe_(recipe), config_(recipe.model), tensors_(model_tensors(config_)) {
  // Balancers keep only a few numbers; no other estimate counts them either.
  std::erase_if(tensors_, [](const auto& tensor) { return tensor.role == TensorRole::balancer; });
  for (const ModelTensor& tensor : tensors_) {
    if (!tensor.trained) frozen_.insert(tensor.module);
    if (tensor.experts > 0) of_experts_.insert(tensor.module);
  }
  const TrainConfig& train = recipe.train;
  flops_ = nominal_training_flops(recipe.model, train.batch_sequences, train.sequence_length);
  const double multiply_adds = static_cast<double>(train.batch_sequences * train.sequence_length) *
                               static_cast<double>(config_.d_model * config_.vocab);
  head_share_ = 6 * multiply_adds *
                static_cast<double>(training_objective(recipe.model.traits()).passes) / flops_;
}

RankEstimator::Shape RankEstimator::shape_of(const ParallelConfig& parallel,
                                             const dist::Layout& layout) const {
  const TrainConfig& train = recipe_.train;
  const std::int64_t parts = train.batch_sequences / train.micro_batch;
  const double stages = layout.pipeline;
  const auto rows =
      static_cast<double>(train.micro_batch * train.sequence_length * config_.d_model);
  return {.parts = parts,
          .own = std::ceil(static_cast<double>(parts) / layout.data),
          .rows = rows,
          .held = layout.sequence ? rows / layout.tensor : rows,
          .layers = std::ceil(static_cast<double>(config_.layers) / stages),
          .moe_layers = std::ceil(static_cast<double>(config_.moe_layers()) / stages),
          .passes = static_cast<double>(training_objective(recipe_.model.traits()).passes),
          .chunks = layout.pipeline == 1 ? 1 : static_cast<int>(parallel.pipeline_chunks)};
}

OptimizerEstimate RankEstimator::optimizer_of(const ParallelConfig& parallel,
                                              const dist::Layout& layout, int stage,
                                              const Shape& shape,
                                              const MachineSpeeds& speeds) const {
  const int rank = rank_at(layout, {.pipeline = stage});
  const auto slices =
      model_slices(tensors_, config_, part_of_rank(config_, layout, rank, shape.chunks));
  std::vector<ParameterSize> dense, experts;
  std::int64_t frozen = 0;  // elements that are held, but have no gradient and no moments
  for (const auto& [name, slice] : slices) {
    const bool apart = layout.divides_experts() && of_experts_.contains(name);
    if (frozen_.contains(name))
      frozen += elements(slice);
    else
      (apart ? experts : dense).push_back({.name = name, .elements = elements(slice)});
  }
  SharedSteps steps{.parts = static_cast<std::size_t>(shape.parts),
                    .ranks = layout.data,
                    .zero = static_cast<int>(parallel.zero),
                    .one_machine = on_one_machine(layout, speeds),
                    .passes = static_cast<int>(shape.passes),
                    .moment_bytes = moment_bytes(recipe_.train.optimizer.moments)};
  OptimizerEstimate out;
  const std::int64_t frozen_bytes = static_cast<std::int64_t>(kBytes) * frozen;
  if (parallel.local_steps > 1) {
    out.add_apart(dense, steps, shape.layers, static_cast<double>(parallel.local_steps), speeds);
    out.memory.parameter_bytes += frozen_bytes;
    return out;
  }
  out.add(dense, steps, shape.layers, true, layout.tensor, speeds);
  for (const std::string& name : parameters_in_shares(tensors_, layout))
    if (const auto found = slices.find(name); found != slices.end())
      out.add_shares(
          static_cast<double>(elements(found->second)) / (parallel.zero > 0 ? layout.data : 1),
          found->second.shape.size() > 1);
  steps.ranks = layout.expert_copies();
  steps.parts = static_cast<std::size_t>(shape.own) * static_cast<std::size_t>(steps.ranks);
  out.add(experts, steps, shape.moe_layers, false, layout.expert_stride() * layout.expert, speeds);
  if (parallel.zero > 0) out.sums.kind = "weights";
  // With several chunks, the gradients of as many parts as there are stages are kept apart until
  // the first chunk's backward pass. They are the gradients of all chunks but the first.
  out.memory.gradient_bytes +=
      out.memory.parameter_bytes * layout.pipeline * (shape.chunks - 1) / shape.chunks;
  out.memory.parameter_bytes += frozen_bytes;
  return out;
}

/// The largest values over all stages. Ranks along the other axes hold equal amounts.
OptimizerEstimate RankEstimator::largest_optimizer(const ParallelConfig& parallel,
                                                   const dist::Layout& layout, const Shape& shape,
                                                   const MachineSpeeds& speeds) const {
  const auto larger = [](Sent& most, const Sent& one) {
    if (one.bytes >= most.bytes) most = one;
  };
  OptimizerEstimate out;
  for (int stage = 0; stage < layout.pipeline; ++stage) {
    const OptimizerEstimate one = optimizer_of(parallel, layout, stage, shape, speeds);
    if (one.memory.total() > out.memory.total()) out.memory = one.memory;
    out.exchange = std::max(out.exchange, one.exchange);
    out.carriers = std::max(out.carriers, one.carriers);
    larger(out.gradients, one.gradients);
    larger(out.sums, one.sums);
    out.shares = std::max(out.shares, one.shares);
    out.share_sums = std::max(out.share_sums, one.share_sums);
    out.updated = std::max(out.updated, one.updated);
    if (one.exchanged >= out.exchanged) {
      out.exchanged = one.exchanged;
      out.last = one.last;
    }
    out.parameters = std::max(out.parameters, one.parameters);
  }
  return out;
}

RecomputeChoice RankEstimator::recomputation(const dist::Layout& layout, const Shape& shape,
                                             double others) const {
  const TrainConfig& train = recipe_.train;
  const ActivationCount count(
      config_, {.micro_batch = train.micro_batch,
                .sequence_length = train.sequence_length,
                .precision = train.precision,
                .tensors = layout.tensor,
                .divided_rows = layout.sequence,
                .expert_ranks = layout.expert * (layout.whole_experts ? 1 : layout.tensor)});
  const double pieces = layout.pipeline * shape.chunks;
  const double of_piece = std::ceil(static_cast<double>(config_.layers) / pieces);
  const auto held = static_cast<double>(
      passes_held(static_cast<std::size_t>(shape.own), 0, layout.pipeline, shape.chunks));
  const double of_stage = of_piece / static_cast<double>(config_.layers) * held;
  // The count takes an equal share of the layers for every stage, so layers have to be alike.
  return choose_recomputation(
      recipe_, count,
      {.others = others, .share_of_layers = of_stage, .alike = layout.pipeline > 1});
}

double RankEstimator::part_seconds(const dist::Layout& layout, int chunks, double flops) const {
  const double layers = static_cast<double>(config_.layers);
  double most = 0;
  for (int stage = 0; stage < layout.pipeline; ++stage) {
    std::int64_t own = 0;
    for (const IndexRange& piece : layers_of_stage(config_.layers, stage, layout.pipeline, chunks))
      own += piece.size();
    const double share = static_cast<double>(own) / layers * (1 - head_share_) / layout.tensor;
    const double head = layout.sequence ? head_share_ / layout.tensor : head_share_;
    most = std::max(most, share + (stage + 1 == layout.pipeline ? head : 0));
  }
  const TrainConfig& train = recipe_.train;
  return flops_ / static_cast<double>(train.batch_sequences / train.micro_batch) * most / flops;
}

/// Elements of a stage's tensors, whole: not divided over `tensor` or `expert`.
double RankEstimator::numbers_of_stage(const dist::Layout& layout, int stage, int chunks) const {
  const ModelPart part =
      part_of_rank(config_, layout, rank_at(layout, {.pipeline = stage}), chunks);
  double out = 0;
  for (const ModelTensor& tensor : tensors_)
    if (holds(config_, part, tensor))
      out += static_cast<double>(tensor.size() * std::max<std::int64_t>(1, tensor.experts));
  return out;
}

/// Weights take 4 bytes, both moments 8 or 4. A rank receives the tensors that ranks divide:
/// weights and moments with tensor > 1, moments with zero > 0, and also weights with zero = 3.
std::int64_t RankEstimator::checkpoint_bytes(const ParallelConfig& parallel,
                                             const dist::Layout& layout, const Shape& shape,
                                             const OptimizerEstimate& first) const {
  const auto moments = static_cast<double>(2 * moment_bytes(recipe_.train.optimizer.moments));
  if (parallel.local_steps > 1)  // the moments of every other rank, and the outer momentum
    return std::llround(first.parameters * (moments * (layout.data - 1) + kBytes));
  const bool divides = parallel.zero > 0 && layout.data > 1;
  const double bytes = layout.tensor > 1 || (divides && parallel.zero == 3) ? kBytes + moments
                       : divides                                            ? moments
                                                                            : 0;
  double most = 0;
  for (int stage = 0; stage < layout.pipeline && bytes > 0; ++stage)
    most = std::max(most, numbers_of_stage(layout, stage, shape.chunks));
  return std::llround(bytes * most / (layout.data * layout.tensor));
}

std::int64_t RankEstimator::evaluation_bytes(const ParallelConfig& parallel,
                                             const dist::Layout& layout,
                                             const OptimizerEstimate& first) const {
  const bool divides = parallel.zero > 0 && layout.data > 1;
  double out = divides ? static_cast<double>(first.to_make_whole) : 0;
  if (layout.tensor * layout.pipeline * layout.expert > 1)
    out += 2 * kBytes * numbers_of_stage({}, 0, 1);
  return std::llround(out);
}

/// The time that a step saves because exchanges overlap the computation.
double RankEstimator::hidden_seconds(const ParallelConfig& parallel, const Shape& shape,
                                     const OptimizerEstimate& optimizer, double part,
                                     const MachineSpeeds& speeds) const {
  // A part's gradients are complete only after its passes through all chunks.
  const bool beside =
      parallel.overlap && parallel.local_steps == 1 && (shape.chunks == 1 || parallel.zero >= 2);
  const bool sums = parallel.zero == 0 || parallel.zero == 3;
  const double seconds =
      optimizer.gradients.seconds(speeds) + (sums ? optimizer.sums.seconds(speeds) : 0);
  if (!beside || seconds == 0) return 0;
  const double processor = optimizer.gradients.processor_seconds(speeds) +
                           (sums ? optimizer.sums.processor_seconds(speeds) : 0);
  const double rounds = parallel.zero >= 2 ? shape.own : 1;
  const double place = parallel.zero >= 2 ? shape.own - 1.0 / 3 : 2.0 / 3;  // micro-batches
  const double last = optimizer.last / optimizer.exchanged / rounds;
  const double first = 1 / (shape.layers * rounds);
  const double hidden = std::min((1 - last) * seconds, (1 - first) * place * part);
  return hidden * (1 - std::min(1.0, processor / seconds));
}

namespace {

/// Sending rows overlaps the first GEMMs of a shared expert, two thirds of its time. Receiving the
/// results overlaps the last GEMM. The same holds for their gradients.
double hidden_tokens(double tokens, double shared_expert) {
  return std::min(tokens / 2, shared_expert * 2 / 3) + std::min(tokens / 2, shared_expert / 3);
}

}  // namespace

/// FLOPs of the experts for a micro-batch in a stage, at even loads.
double RankEstimator::expert_flops(const dist::Layout& layout, const Shape& shape) const {
  const TrainConfig& train = recipe_.train;
  return 6 * shape.passes * static_cast<double>(train.micro_batch * train.sequence_length) *
         recipe_.model.active_experts() * shape.moe_layers * ModelMultiplyAdds(config_).expert /
         layout.tensor;
}

Sent RankEstimator::records(const ParallelConfig& parallel, const dist::Layout& layout,
                            const Shape& shape, const OptimizerEstimate& optimizer,
                            const MachineSpeeds& speeds) const {
  // A part has an entry for each chunk of its layers.
  const double record =
      typical_record_bytes(shape.own * shape.chunks, shape.moe_layers * shape.passes / shape.chunks,
                           static_cast<double>(recipe_.model.total_experts()));
  const bool divides = parallel.zero > 0 && layout.data > 1;
  const bool whole_models = layout.ranks() == layout.data && !layout.divides_experts();
  double norms = 1, barriers = 0;
  if (whole_models && parallel.local_steps == 1)
    norms = divides ? std::ceil(optimizer.updated / ops::kSquarePiece) : 0;
  if (divides && on_one_machine(layout, speeds))
    barriers = layout.data - 1 + (layout.divides_experts() ? layout.expert_copies() - 1 : 0);
  return rank_traffic::of_records(
      static_cast<double>(dist::TextCapacity::after(std::llround(record))), norms, barriers, layout,
      speeds);
}

RankEstimate RankEstimator::estimate(const ParallelConfig& parallel, const dist::Layout& layout,
                                     const MachineSpeeds& speeds) const {
  const Shape shape = shape_of(parallel, layout);
  const OptimizerEstimate optimizer = largest_optimizer(parallel, layout, shape, speeds);
  RankEstimate out{.ranks = layout.ranks(),
                   .memory = optimizer.memory,
                   .exchange_bytes = optimizer.exchange + optimizer.carriers};
  out.recomputation = recomputation(layout, shape, static_cast<double>(out.memory.total()));
  out.memory.activation_bytes = std::llround(out.recomputation.activation_bytes);
  const OptimizerEstimate first = optimizer_of(parallel, layout, 0, shape, speeds);
  out.checkpoint_bytes = checkpoint_bytes(parallel, layout, shape, first);
  out.evaluation_bytes = evaluation_bytes(parallel, layout, first);
  const double passes = shape.own * shape.passes, layer_sums = 4 * shape.layers * passes;
  const Sent tokens = rank_traffic::of_tokens(
      4 * shape.moe_layers * passes, shape.rows / (layout.whole_experts ? layout.tensor : 1),
      recipe_.model.active_experts(), layout, speeds);
  const Sent told = records(parallel, layout, shape, optimizer, speeds);
  for (const Sent& sent :
       {optimizer.gradients, optimizer.sums,
        rank_traffic::of_tensor(layer_sums + optimizer.share_sums,
                                layer_sums * shape.rows + optimizer.shares, layout, speeds),
        rank_traffic::of_stages(2 * shape.own * shape.chunks, shape.held * shape.passes, layout,
                                speeds),
        tokens, told}) {
    if (sent.bytes == 0) continue;
    out.bytes_per_step.emplace_back(sent.kind, static_cast<std::int64_t>(sent.bytes));
    out.exchange_seconds += sent.seconds(speeds);
  }
  out.record_seconds = told.seconds(speeds);
  out.useful_seconds = flops_ / layout.ranks() / speeds.flops;
  double part = part_seconds(layout, shape.chunks, speeds.flops);
  if (layout.expert > 1)
    part += (speeds.rank_load - 1) * expert_flops(layout, shape) / speeds.flops;
  out.compute_seconds = part * (shape.own + (layout.pipeline - 1.0) / shape.chunks);
  // AdamW reads a weight, a gradient and two moments, and writes the weight and the moments. The
  // norm reads the gradient again. Adding up reads two gradients and writes one.
  const auto moment = static_cast<double>(moment_bytes(recipe_.train.optimizer.moments));
  out.update_seconds = seconds_of_memory((4 * kBytes + 4 * moment) * optimizer.updated +
                                             3 * kBytes * (shape.own - 1) * optimizer.parameters,
                                         speeds);
  double hidden = hidden_seconds(parallel, shape, optimizer, part, speeds);
  if (parallel.overlap)
    hidden +=
        hidden_tokens(tokens.seconds(speeds), 18 * passes * shape.moe_layers * shape.rows *
                                                  static_cast<double>(config_.moe.shared_width) /
                                                  layout.tensor / speeds.flops);
  out.step_seconds = out.compute_seconds + out.update_seconds + out.exchange_seconds - hidden;
  return out;
}

RankEstimate estimate_rank(const Recipe& recipe, const dist::Layout& layout,
                           const MachineSpeeds& speeds) {
  return RankEstimator(recipe).estimate(recipe.parallel, layout, speeds);
}

}  // namespace penstock
