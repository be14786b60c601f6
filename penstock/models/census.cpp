#include "penstock/models/census.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "penstock/ops/ops.h"

namespace penstock {
namespace {

std::int64_t attention_parameters(const ModelConfig& c) {
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  return c.d_model * (2 * q + 2 * kv) + (c.qkv_bias ? q + 2 * kv : 0);
}

/// One layer's scorer, its parameters not drawn.
std::shared_ptr<Scorer> scorer_of(const ModelConfig& c) {
  const MoeOptions options = c.moe_options(0);
  const ResolvedRouter router = resolve(options.router);
  return scorer_registry()
      .at(router.scorer)
      .make(router_shape(options), router.options.at(router.scorer));
}

/// Trained parameters of one layer's scorer.
std::int64_t scorer_parameters(const ModelConfig& c) {
  if (c.moe_layers() == 0) return 0;
  std::int64_t count = 0;
  for (const auto& parameter : scorer_of(c)->parameters())
    if (parameter.requires_grad()) count += parameter.numel();
  return count;
}

}  // namespace

ParameterCensus count_parameters(const ModelConfig& config) {
  const ModelConfig c = config.resolved();
  const std::int64_t moe_layers = c.moe_layers(), dense_layers = c.layers - moe_layers;
  ParameterCensus out;
  out.embedding = c.vocab * c.d_model * (c.tie_embeddings ? 1 : 2);
  out.router = moe_layers * scorer_parameters(c);
  const std::int64_t shared = out.embedding + out.router + c.d_model +
                              c.layers * (attention_parameters(c) + 2 * c.d_model) +
                              dense_layers * 3 * c.d_model * c.d_ffn;
  const std::int64_t expert = moe_layers > 0 ? 3 * c.d_model * c.expert_width() : 0;
  out.total = shared + moe_layers * c.total_experts() * expert;
  out.active = shared + std::llround(static_cast<double>(moe_layers * expert) * c.active_experts());
  return out;
}

double published_flops_per_sequence(const ModelConfig& config, std::int64_t sequence_length) {
  const ModelConfig c = config.resolved();
  const double s = static_cast<double>(sequence_length), layers = static_cast<double>(c.layers),
               d = static_cast<double>(c.d_model), f = static_cast<double>(c.d_ffn);
  // Granularity leaves k·f unchanged: k·G experts of width f/G.
  const double k_mean = (static_cast<double>(c.moe_layers()) * c.router.k +
                         static_cast<double>(c.layers - c.moe_layers())) /
                        layers;
  const double kv = static_cast<double>(c.kv_heads) / static_cast<double>(c.heads);
  return 12 * s * layers * d * d *
         (1 + kv + s / d + 1.5 * f / d * k_mean + static_cast<double>(c.vocab) / (2 * layers * d));
}

double useful_training_flops(const ModelConfig& c, double tokens, double attended_pairs,
                             double assignments) {
  const double d = static_cast<double>(c.d_model);
  const double q = static_cast<double>(c.heads * c.head_dim),
               kv = static_cast<double>(c.kv_heads * c.head_dim);
  const auto layers = static_cast<double>(c.layers), moe = static_cast<double>(c.moe_layers());
  double products = layers * d * (2 * q + 2 * kv)                            // q, k, v, o
                    + (layers - moe) * 3 * d * static_cast<double>(c.d_ffn)  // dense FFN
                    + d * static_cast<double>(c.vocab);                      // head
  if (moe > 0) products += moe * static_cast<double>(scorer_of(c)->products_per_token());
  double flops = 2 * tokens * products + 4 * layers * q * attended_pairs;
  if (moe > 0) flops += 2 * assignments * 3 * d * static_cast<double>(c.expert_width());
  return 3 * flops;
}

double causal_pairs(std::int64_t sequences, std::int64_t length) {
  return static_cast<double>(sequences) * static_cast<double>(length) *
         static_cast<double>(length + 1) / 2;
}

TrainingMemory training_memory(const ModelConfig& config, std::int64_t micro_batch,
                               std::int64_t sequence_length, bool recompute_experts) {
  const ModelConfig c = config.resolved();
  const std::int64_t parameters = count_parameters(c).total, vocab = c.vocab;
  TrainingMemory out;
  out.parameter_bytes = out.gradient_bytes = 4 * parameters;
  out.optimizer_bytes = 8 * parameters;
  const auto tokens = static_cast<double>(micro_batch * sequence_length),
             d = static_cast<double>(c.d_model), moe = static_cast<double>(c.moe_layers()),
             layers = static_cast<double>(c.layers);
  double per_token =
      layers * (4 * d + 2 * static_cast<double>((c.heads + c.kv_heads) * c.head_dim)) +
      (layers - moe) * 3 * static_cast<double>(c.d_ffn) + 3 * d;
  if (moe > 0) {
    const auto experts = static_cast<double>(c.total_experts());
    const double active = resolve(c.router).traits.variable_active
                              ? std::max(c.active_experts(), experts / 2)
                              : c.active_experts();
    const double inner = active * 2 * static_cast<double>(c.expert_width());
    per_token += moe * (experts + 7 * active + (recompute_experts ? 0 : inner));
  }
  const std::int64_t row = 4 * vocab, logits = row * micro_batch * sequence_length;
  out.activation_bytes =
      std::llround(4 * tokens * per_token) + std::min(logits, std::max(row, ops::kLogitsBytes));
  return out;
}

}  // namespace penstock
