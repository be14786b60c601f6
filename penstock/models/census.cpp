#include "penstock/models/census.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/models/tensor_shapes.h"
#include "penstock/ops/ops.h"

namespace penstock {
namespace {

/// FLOPs of a forward pass: of the tokens themselves, and of what memory and distances, which take
/// no gradient, are projected with.
struct ForwardFlops {
  double tokens = 0, remembered = 0;
};

ForwardFlops forward_flops(const ModelProducts& products, double tokens, double attended_pairs,
                           double assignments, const MemoryWork& memory) {
  return {.tokens = 2 * (tokens * products.token() + products.pair * attended_pairs +
                         assignments * products.expert),
          .remembered = 2 * (products.keys_values * memory.positions +
                             products.distances * memory.distances)};
}

/// The same of `sequences` of that length, `memory` positions before each.
ForwardFlops nominal_flops(const ModelConfig& c, std::int64_t sequences, std::int64_t length,
                           std::int64_t memory, double active) {
  const auto rows = static_cast<double>(sequences), tokens = rows * static_cast<double>(length);
  const double before = c.has_memory() ? static_cast<double>(memory) : 0;
  return forward_flops(
      c, tokens, causal_pairs(sequences, length) + tokens * before,
      tokens * static_cast<double>(c.moe_layers()) * active,
      {.positions = rows * before, .distances = before + static_cast<double>(length)});
}

/// Rows of logits per token; of a router that scores segments, fewer than one.
double rows_per_token(const ModelConfig& c) {
  return 1 / static_cast<double>(selector_of(c)->segment_length());
}

/// Floats per token that a layer keeps for its backward pass, but for its feed-forward; `tensors`
/// ranks divide its heads. What enters products, 2d, is all rows; of residuals each holds `share`.
double kept_by_attention(const ModelConfig& c, double length, double tensors, double share) {
  const double d = static_cast<double>(c.d_model), q = static_cast<double>(c.heads * c.head_dim);
  double out =
      2 * d + 2 * d * share + (2 * q + 2 * static_cast<double>(c.kv_heads * c.head_dim)) / tensors;
  if (c.has_memory())  // the memory, its share of the attention's input, keys and values
    out += static_cast<double>(c.xl.memory) / length * (2 * d + 2 * q);
  return out;
}

/// Of one expert of one layer.
double parameters_of_expert(const ModelConfig& c) {
  std::int64_t sum = 0;
  for (const ModelTensor& tensor : backbone_tensors(c))
    if (tensor.experts > 0) sum += tensor.size();
  return static_cast<double>(sum) / static_cast<double>(c.moe_layers());
}

/// Floats per token that routing and experts of a layer keep; `tensors` ranks divide the widths.
double kept_by_moe(const ModelConfig& c, bool recompute_experts, double tensors) {
  const ResolvedRouter router = resolve(c.router);
  const double width = static_cast<double>(c.expert_width()) / tensors,
               shared = 3 * static_cast<double>(c.moe.shared_width) / tensors;
  if (router.traits.merges)  // the blended weights of each segment
    return 3 * width + shared + rows_per_token(c) * parameters_of_expert(c) / tensors;
  const auto experts = static_cast<double>(c.total_experts());
  const double active = router.traits.variable_active ? std::max(c.active_experts(), experts / 2)
                                                      : c.active_experts();
  return experts + 7 * active + (recompute_experts ? 0 : active * 2 * width) + shared;
}

/// Floats per token of a layer that products in bf16 keep more than f32 ones, or less: what enters
/// them is rounded. The rows that experts read stay for the router too, and what attention gives
/// for attention.
double more_in_bf16(const ModelConfig& c, bool moe, double tensors) {
  const double d = static_cast<double>(c.d_model), q = static_cast<double>(c.heads * c.head_dim);
  const double inner = static_cast<double>(moe ? c.moe.shared_width : c.dense_width());
  const double readers = moe ? (inner > 0 ? 2 : 1) : -1;  // of the feed-forward's rows
  return (readers - 1) * d / 2 + (q - inner) / 2 / tensors;
}

/// Bytes of the weights that are packed for products in bf16 at a time.
double packed_bytes(const ModelConfig& c, const TrainingPass& pass) {
  constexpr double kBytes = 2;
  const double head = 2 * kBytes * static_cast<double>(c.vocab * c.d_model);
  if (c.moe_layers() == 0 || resolve(c.router).traits.merges) return head;
  const auto inputs = static_cast<double>(c.ffn_form().inputs());
  const double matrices = 1 + (pass.recompute_experts ? inputs / (inputs + 1) : 0);
  const double experts = static_cast<double>(c.total_experts()) * parameters_of_expert(c);
  return std::max(head, kBytes * matrices * experts / pass.expert_ranks);
}

/// Passes that a training step makes over its tokens.
double passes(const ModelConfig& c) {
  return c.moe_layers() > 0 ? resolve(c.router).traits.forward_passes : 1;
}

}  // namespace

ParameterCensus count_parameters(const ModelConfig& config) {
  const ModelConfig c = config.resolved();
  std::int64_t common = 0, experts = 0;
  ParameterCensus out;
  for (const ModelTensor& tensor : backbone_tensors(c)) {
    (tensor.experts > 0 ? experts : common) += tensor.size();
    if (tensor.role == TensorRole::embedding) out.embedding += tensor.size();
  }
  for (const auto& scorer : scorers_of(c)) {
    for (const at::Tensor& parameter : scorer->parameters())
      if (parameter.requires_grad()) out.router += parameter.numel();
    const ScorerParameters parts_of_scorer = scorer->parameters_by_part();
    out.by_part.router += parts_of_scorer.router;
    out.by_part.router_embedding += parts_of_scorer.embedding;
    out.by_part.hypernetwork += parts_of_scorer.network;
  }
  out.by_part.backbone = common + experts * c.total_experts();
  out.total = out.by_part.backbone + out.router;
  out.active =
      common + out.router + std::llround(static_cast<double>(experts) * c.active_experts());
  return out;
}

double published_flops_per_sequence(const ModelConfig& config, std::int64_t sequence_length) {
  const ModelConfig c = config.resolved();
  const double s = static_cast<double>(sequence_length), layers = static_cast<double>(c.layers),
               d = static_cast<double>(c.d_model), f = static_cast<double>(c.d_ffn);
  const double moe_share = static_cast<double>(c.moe_layers()) / layers;
  // Granularity leaves k·f unchanged: k·G experts of width f/G.
  const double k_mean =
      moe_share * c.router.k + (1 - moe_share) * (static_cast<double>(c.dense_width()) / f);
  const double shared_mean = moe_share * static_cast<double>(c.moe.shared_width);
  const double kv = static_cast<double>(c.kv_heads) / static_cast<double>(c.heads);
  const double heads_width = static_cast<double>(c.heads * c.head_dim) / d;
  return 12 * s * layers * d * d *
         ((1 + kv + s / d) * heads_width + 1.5 * f / d * k_mean + 1.5 * shared_mean / d +
          static_cast<double>(c.vocab) / (2 * layers * d));
}

ModelProducts::ModelProducts(const ModelConfig& config) {
  const ModelConfig c = config.resolved();
  const std::int64_t moe_layers = c.moe_layers();
  double experts = 0;  // one of each layer
  const std::pair<TensorRole, double*> sums[] = {
      {TensorRole::query, &queries},  {TensorRole::key_value, &keys_values},
      {TensorRole::output, &outputs}, {TensorRole::distance, &distances},
      {TensorRole::dense, &dense},    {TensorRole::shared, &shared},
      {TensorRole::expert, &experts}};
  for (const ModelTensor& tensor : backbone_tensors(c))
    for (const auto& [role, sum] : sums)
      if (tensor.role == role && tensor.shape.size() == 2)  // biases are no products
        *sum += static_cast<double>(tensor.size());
  head = static_cast<double>(c.d_model * c.vocab);
  pair = static_cast<double>((c.has_memory() ? 3 : 2) * c.layers * c.heads * c.head_dim);
  if (moe_layers == 0) return;
  expert = experts / static_cast<double>(moe_layers);
  // One scorer stands for all.
  auto of_row = static_cast<double>(scorer_of(c, 0)->products_per_token());
  if (resolve(c.router).traits.merges) of_row += static_cast<double>(c.total_experts()) * expert;
  routing = static_cast<double>(moe_layers) * rows_per_token(c) * of_row;
}

double useful_training_flops(const ModelProducts& products, double tokens, double attended_pairs,
                             double assignments, const MemoryWork& memory) {
  const ForwardFlops flops = forward_flops(products, tokens, attended_pairs, assignments, memory);
  return 3 * flops.tokens + 2 * flops.remembered;
}

double causal_pairs(std::int64_t sequences, std::int64_t length) {
  return static_cast<double>(sequences) * static_cast<double>(length) *
         static_cast<double>(length + 1) / 2;
}

double nominal_training_flops(const ModelConfig& config, std::int64_t sequences,
                              std::int64_t length) {
  const ModelConfig c = config.resolved();
  const ForwardFlops flops = nominal_flops(c, sequences, length, c.xl.memory, c.active_experts());
  return passes(c) * (3 * flops.tokens + 2 * flops.remembered);
}

double nominal_forward_flops(const ModelConfig& config, std::int64_t sequences, std::int64_t length,
                             std::int64_t memory, double active) {
  const ForwardFlops flops = nominal_flops(config.resolved(), sequences, length, memory, active);
  return flops.tokens + flops.remembered;
}

Activations activations(const ModelConfig& config, const TrainingPass& pass) {
  const ModelConfig c = config.resolved();
  const bool bf16 = pass.precision == ops::ProductPrecision::bf16;
  const double moe_layers = static_cast<double>(c.moe_layers()),
               dense_layers = static_cast<double>(c.layers) - moe_layers;
  const double tensors = pass.tensors, share = pass.divided_rows ? 1.0 / tensors : 1;
  const double attention =
      kept_by_attention(c, static_cast<double>(pass.sequence_length), tensors, share);
  const double dense =
      dense_layers > 0 ? attention + 3 * static_cast<double>(c.dense_width()) / tensors : 0;
  const double moe =
      moe_layers > 0 ? attention + kept_by_moe(c, pass.recompute_experts, tensors) : 0;
  const double more = bf16 ? dense_layers * more_in_bf16(c, false, tensors) +
                                 moe_layers * more_in_bf16(c, true, tensors)
                           : 0;
  const std::int64_t tokens = pass.micro_batch * pass.sequence_length, row = 4 * c.vocab;
  const double of_float = 4 * passes(c) * static_cast<double>(tokens);  // bytes, one per token
  return {
      .layers = of_float * (dense_layers * dense + moe_layers * moe + more),
      .besides = of_float * (std::max(dense, moe) + 3 * share * static_cast<double>(c.d_model)) +
                 static_cast<double>(std::min(row * tokens, std::max(row, ops::kLogitsBytes))) +
                 (bf16 ? packed_bytes(c, pass) : 0)};
}

TrainingMemory training_memory(const ModelConfig& config, std::int64_t micro_batch,
                               std::int64_t sequence_length, bool recompute_experts,
                               ops::ProductPrecision precision) {
  const ModelConfig c = config.resolved();
  const std::int64_t parameters = count_parameters(c).total;
  TrainingMemory out;
  out.parameter_bytes = out.gradient_bytes = 4 * parameters;
  out.optimizer_bytes = 8 * parameters;
  const auto [layers, besides] = activations(c, {.micro_batch = micro_batch,
                                                 .sequence_length = sequence_length,
                                                 .recompute_experts = recompute_experts,
                                                 .precision = precision});
  out.activation_bytes = std::llround(layers + besides);
  return out;
}

}  // namespace penstock
