#include "penstock/models/counts/flops.h"

#include <utility>

#include "penstock/base/error.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/decoder_layer.h"
#include "penstock/models/transformer_xl_layer.h"

namespace penstock {
namespace {

/// FLOPs of a forward pass. `tokens` is the tokens' own work. `remembered` is the projection of
/// memory and distances, which get no gradient.
struct ForwardFlops {
  double tokens = 0, remembered = 0;
};

ForwardFlops forward_flops(const ModelMultiplyAdds& multiply_adds, double tokens,
                           double attended_pairs, double assignments, const MemoryWork& memory) {
  return {.tokens = 2 * (tokens * multiply_adds.token() + multiply_adds.pair * attended_pairs +
                         assignments * multiply_adds.expert),
          .remembered = 2 * (multiply_adds.keys_values * memory.positions +
                             multiply_adds.distances * memory.distances)};
}

/// The same for `sequences` sequences of that length, each with `memory` positions before it.
ForwardFlops nominal_flops(const ModelConfig& c, std::int64_t sequences, std::int64_t length,
                           std::int64_t memory, double active) {
  const auto rows = static_cast<double>(sequences), tokens = rows * static_cast<double>(length);
  const double before = c.has_memory() ? static_cast<double>(memory) : 0;
  return forward_flops(
      c, tokens, causal_pairs(sequences, length) + tokens * before,
      tokens * static_cast<double>(c.moe_layers()) * active,
      {.positions = rows * before, .distances = before + static_cast<double>(length)});
}

}  // namespace

double rows_per_token(const ModelConfig& c) {
  return 1 / static_cast<double>(c.traits().segment_length);
}

double forward_passes(const ModelConfig& c) {
  return static_cast<double>(c.traits().forward_passes);
}

double published_flops_per_sequence(const ModelConfig& c, std::int64_t sequence_length) {
  PENSTOCK_ASSERT(c.is_resolved());
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

ModelMultiplyAdds::ModelMultiplyAdds(const ModelConfig& c) {
  const std::int64_t moe_layers = c.moe_layers();
  double experts = 0;  // the sum of one expert of each layer
  const std::pair<TensorRole, double*> sums[] = {
      {TensorRole::query, &queries},  {TensorRole::key_value, &keys_values},
      {TensorRole::output, &outputs}, {TensorRole::distance, &distances},
      {TensorRole::dense, &dense},    {TensorRole::shared, &shared},
      {TensorRole::expert, &experts}};
  for (const ModelTensor& tensor : backbone_tensors(c))
    for (const auto& [role, sum] : sums)
      if (tensor.role == role)  // only matrices have such a role: biases have `rest`
        *sum += static_cast<double>(tensor.size());
  head = static_cast<double>(c.d_model * c.vocab);
  pair = static_cast<double>(c.layers * (c.transformer_xl()
                                             ? TransformerXlLayer::multiply_adds_per_pair(c)
                                             : DecoderLayer::multiply_adds_per_pair(c)));
  if (moe_layers == 0) return;
  expert = experts / static_cast<double>(moe_layers);
  // All scorers have the same cost, so one is enough.
  auto of_row = static_cast<double>(scorer_of(c, 0)->multiply_adds_per_token());
  if (c.traits().merges) of_row += static_cast<double>(c.total_experts()) * expert;
  routing = static_cast<double>(moe_layers) * rows_per_token(c) * of_row;
}

double useful_training_flops(const ModelMultiplyAdds& multiply_adds, double tokens,
                             double attended_pairs, double assignments, const MemoryWork& memory) {
  const ForwardFlops flops =
      forward_flops(multiply_adds, tokens, attended_pairs, assignments, memory);
  return 3 * flops.tokens + 2 * flops.remembered;
}

double useful_forward_flops(const ModelMultiplyAdds& multiply_adds, double tokens,
                            double attended_pairs, double assignments, const MemoryWork& memory) {
  const ForwardFlops flops =
      forward_flops(multiply_adds, tokens, attended_pairs, assignments, memory);
  return flops.tokens + flops.remembered;
}

double causal_pairs(std::int64_t sequences, std::int64_t length) {
  return static_cast<double>(sequences) * static_cast<double>(length) *
         static_cast<double>(length + 1) / 2;
}

double nominal_training_flops(const ModelConfig& c, std::int64_t sequences, std::int64_t length) {
  const ForwardFlops flops = nominal_flops(c, sequences, length, c.xl.memory, c.active_experts());
  const double trained = forward_passes(c) * (3 * flops.tokens + 2 * flops.remembered);
  if (c.traits().distillation == 0) return trained;
  const auto all = static_cast<double>(c.total_experts());
  return trained + nominal_forward_flops(c, sequences, length, c.xl.memory, all);
}

double nominal_forward_flops(const ModelConfig& config, std::int64_t sequences, std::int64_t length,
                             std::int64_t memory, double active) {
  const ForwardFlops flops = nominal_flops(config, sequences, length, memory, active);
  return flops.tokens + flops.remembered;
}

}  // namespace penstock
