#include "penstock/models/census.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/models/tensor_shapes.h"
#include "penstock/ops/ops.h"

namespace penstock {
namespace {

/// Parameters of the parts that the two architectures have in common, by name; `dense` and `expert`
/// are one feed-forward network's.
struct Parts {
  std::int64_t embedding, attention, norms, dense, expert;  // attention and norms: of a layer
  std::int64_t shared;                                      // of a MoE layer
  std::int64_t rest;                                        // of the model
};

std::int64_t ffn_parameters(const ModelConfig& c, std::int64_t width) {
  const FfnForm form = c.ffn_form();
  return (form.inputs() + 1) * c.d_model * width +
         (form.bias ? form.inputs() * width + c.d_model : 0);
}

Parts parts_of(const ModelConfig& c) {
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim, d = c.d_model;
  Parts out{.dense = ffn_parameters(c, c.d_ffn),
            .expert = c.moe_layers() > 0 ? ffn_parameters(c, c.expert_width()) : 0,
            .shared = shared_expert_products(c)};
  if (c.transformer_xl()) {
    const auto clusters = static_cast<std::int64_t>(c.xl.cutoffs.size());
    out.embedding = c.vocab * d;
    out.attention = 5 * d * q + (c.xl.biases_per_layer ? 2 * q : 0);  // q, k, v, distances, output
    out.norms = 4 * d;
    out.rest = c.vocab + clusters * (d + 1) + (c.xl.biases_per_layer ? 0 : 2 * q);
  } else {
    out.embedding = c.vocab * d * (c.tie_embeddings ? 1 : 2);
    out.attention = d * (2 * q + 2 * kv) + (c.qkv_bias ? q + 2 * kv : 0) + (c.qk_norm ? q + kv : 0);
    out.norms = 2 * d;
    out.rest = d;
  }
  return out;
}

/// FLOPs of a forward pass: of the tokens themselves, and of what memory and distances, which take
/// no gradient, are projected with.
struct ForwardFlops {
  double tokens = 0, remembered = 0;
};

ForwardFlops forward_flops(const ModelConfig& c, double tokens, double attended_pairs,
                           double assignments, const MemoryWork& memory) {
  const double d = static_cast<double>(c.d_model);
  const double q = static_cast<double>(c.heads * c.head_dim),
               kv = static_cast<double>(c.kv_heads * c.head_dim);
  const auto layers = static_cast<double>(c.layers), moe = static_cast<double>(c.moe_layers());
  const auto matrices = static_cast<double>(c.ffn_form().inputs() + 1);
  double products = layers * d * (2 * q + 2 * kv)                                   // q, k, v, o
                    + (layers - moe) * matrices * d * static_cast<double>(c.d_ffn)  // dense FFN
                    + d * static_cast<double>(c.vocab);                             // head
  products += routing_products(c) + moe * static_cast<double>(shared_expert_products(c));
  const double attention_products = c.transformer_xl() ? 3 : 2;
  double flops = 2 * tokens * products + 2 * attention_products * layers * q * attended_pairs;
  if (moe > 0) flops += 2 * assignments * matrices * d * static_cast<double>(c.expert_width());
  double remembered = 0;
  if (c.transformer_xl())
    remembered = 2 * layers * d * (2 * kv * memory.positions + q * memory.distances);
  return {.tokens = flops, .remembered = remembered};
}

/// The same of `sequences` of that length, `memory` positions before each.
ForwardFlops nominal_flops(const ModelConfig& c, std::int64_t sequences, std::int64_t length,
                           std::int64_t memory, double active) {
  const auto rows = static_cast<double>(sequences), tokens = rows * static_cast<double>(length);
  const double before = c.transformer_xl() ? static_cast<double>(memory) : 0;
  return forward_flops(
      c, tokens, causal_pairs(sequences, length) + tokens * before,
      tokens * static_cast<double>(c.moe_layers()) * active,
      {.positions = rows * before, .distances = before + static_cast<double>(length)});
}

/// Rows of logits per token; of a router that scores segments, fewer than one.
double rows_per_token(const ModelConfig& c) {
  return 1 / static_cast<double>(selector_of(c)->segment_length());
}

/// Floats per token that a layer keeps for its backward pass, but for its feed-forward.
double kept_by_attention(const ModelConfig& c, double length) {
  const double d = static_cast<double>(c.d_model), q = static_cast<double>(c.heads * c.head_dim);
  double out = 4 * d + 2 * q + 2 * static_cast<double>(c.kv_heads * c.head_dim);
  if (c.transformer_xl())  // the memory, its share of the attention's input, keys and values
    out += static_cast<double>(c.xl.memory) / length * (2 * d + 2 * q);
  return out;
}

/// Floats per token that routing and experts of a layer keep.
double kept_by_moe(const ModelConfig& c, bool recompute_experts) {
  const ResolvedRouter router = resolve(c.router);
  const double width = static_cast<double>(c.expert_width()),
               shared = 3 * static_cast<double>(c.moe.shared_width);
  if (router.traits.merges)  // the blended weights of each segment
    return 3 * width + shared +
           rows_per_token(c) * static_cast<double>(ffn_parameters(c, c.expert_width()));
  const auto experts = static_cast<double>(c.total_experts());
  const double active = router.traits.variable_active ? std::max(c.active_experts(), experts / 2)
                                                      : c.active_experts();
  return experts + 7 * active + (recompute_experts ? 0 : active * 2 * width) + shared;
}

/// Passes that a training step makes over its tokens.
double passes(const ModelConfig& c) {
  return c.moe_layers() > 0 ? resolve(c.router).traits.forward_passes : 1;
}

}  // namespace

ParameterCensus count_parameters(const ModelConfig& config) {
  const ModelConfig c = config.resolved();
  const std::int64_t moe_layers = c.moe_layers(), dense_layers = c.layers - moe_layers;
  const Parts parts = parts_of(c);
  ParameterCensus out;
  out.embedding = parts.embedding;
  for (const auto& scorer : scorers_of(c)) {
    for (const at::Tensor& parameter : scorer->parameters())
      if (parameter.requires_grad()) out.router += parameter.numel();
    const ScorerParameters parts_of_scorer = scorer->parameters_by_part();
    out.by_part.router += parts_of_scorer.router;
    out.by_part.router_embedding += parts_of_scorer.embedding;
    out.by_part.hypernetwork += parts_of_scorer.network;
  }
  const std::int64_t common = parts.embedding + parts.rest +
                              c.layers * (parts.attention + parts.norms) +
                              dense_layers * parts.dense + moe_layers * parts.shared;
  const std::int64_t experts = moe_layers * c.total_experts() * parts.expert;
  out.total = common + out.router + experts;
  out.active = common + out.router +
               std::llround(static_cast<double>(moe_layers * parts.expert) * c.active_experts());
  out.by_part.backbone = common + experts;
  return out;
}

double published_flops_per_sequence(const ModelConfig& config, std::int64_t sequence_length) {
  const ModelConfig c = config.resolved();
  const double s = static_cast<double>(sequence_length), layers = static_cast<double>(c.layers),
               d = static_cast<double>(c.d_model), f = static_cast<double>(c.d_ffn);
  const double moe_share = static_cast<double>(c.moe_layers()) / layers;
  // Granularity leaves k·f unchanged: k·G experts of width f/G.
  const double k_mean = moe_share * c.router.k + (1 - moe_share);
  const double shared_mean = moe_share * static_cast<double>(c.moe.shared_width);
  const double kv = static_cast<double>(c.kv_heads) / static_cast<double>(c.heads);
  const double heads_width = static_cast<double>(c.heads * c.head_dim) / d;
  return 12 * s * layers * d * d *
         ((1 + kv + s / d) * heads_width + 1.5 * f / d * k_mean + 1.5 * shared_mean / d +
          static_cast<double>(c.vocab) / (2 * layers * d));
}

std::int64_t shared_expert_products(const ModelConfig& c) {
  return 3 * c.d_model * c.moe.shared_width + (c.moe.shared_gate ? c.d_model : 0);
}

double routing_products(const ModelConfig& config) {
  const ModelConfig c = config.resolved();
  if (c.moe_layers() == 0) return 0;
  // One scorer stands for all: this is counted in every training step.
  auto of_row = static_cast<double>(scorer_of(c, 0)->products_per_token());
  if (resolve(c.router).traits.merges)
    of_row += static_cast<double>(c.total_experts() * (c.ffn_form().inputs() + 1) * c.d_model *
                                  c.expert_width());
  return static_cast<double>(c.moe_layers()) * rows_per_token(c) * of_row;
}

double useful_training_flops(const ModelConfig& config, double tokens, double attended_pairs,
                             double assignments, const MemoryWork& memory) {
  const ForwardFlops flops = forward_flops(config, tokens, attended_pairs, assignments, memory);
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

TrainingMemory training_memory(const ModelConfig& config, std::int64_t micro_batch,
                               std::int64_t sequence_length, bool recompute_experts) {
  const ModelConfig c = config.resolved();
  const std::int64_t parameters = count_parameters(c).total, vocab = c.vocab;
  TrainingMemory out;
  out.parameter_bytes = out.gradient_bytes = 4 * parameters;
  out.optimizer_bytes = 8 * parameters;
  const double moe_layers = static_cast<double>(c.moe_layers()),
               dense_layers = static_cast<double>(c.layers) - moe_layers;
  const double attention = kept_by_attention(c, static_cast<double>(sequence_length)),
               dense = dense_layers > 0 ? attention + 3 * static_cast<double>(c.d_ffn) : 0,
               moe = moe_layers > 0 ? attention + kept_by_moe(c, recompute_experts) : 0;
  const double per_token = dense_layers * dense + moe_layers * moe + std::max(dense, moe) +
                           3 * static_cast<double>(c.d_model);
  const std::int64_t tokens = micro_batch * sequence_length, row = 4 * vocab;
  out.activation_bytes = std::llround(4 * passes(c) * static_cast<double>(tokens) * per_token) +
                         std::min(row * tokens, std::max(row, ops::kLogitsBytes));
  return out;
}

}  // namespace penstock
