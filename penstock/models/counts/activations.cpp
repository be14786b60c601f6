#include "penstock/models/counts/activations.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/models/counts/flops.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/ops/ops.h"

namespace penstock {
namespace {

/// Floats per token that a layer keeps for its backward pass, without its feed-forward. `tensors`
/// ranks divide the layer's heads. Each rank keeps the inputs of products (2d) of all rows, and the
/// residuals of `share` of the rows.
double kept_by_attention(const ModelConfig& c, double length, double tensors, double share) {
  const double d = static_cast<double>(c.d_model), q = static_cast<double>(c.heads * c.head_dim);
  double out =
      2 * d + 2 * d * share + (2 * q + 2 * static_cast<double>(c.kv_heads * c.head_dim)) / tensors;
  if (c.has_memory())  // the memory's share of attention's input, keys and values
    out += static_cast<double>(c.xl.memory) / length * (2 * d + 2 * q);
  return out;
}

/// Parameters of one expert of one layer.
double parameters_of_expert(const ModelConfig& c) {
  std::int64_t sum = 0;
  for (const ModelTensor& tensor : backbone_tensors(c))
    if (tensor.experts > 0) sum += tensor.size();
  return static_cast<double>(sum) / static_cast<double>(c.moe_layers());
}

/// Assignments per token for which memory is counted. If their number varies, training begins with
/// about half of the gates on, and most of the others follow before the L1 loss lowers them: 7.3 of
/// 8 experts were active at step 16 of the runs in docs/results/remoe-desk-rows.json. So all are
/// counted. A router that begins at k is counted with half of the experts.
double most_active(const ModelConfig& c, const ResolvedRouter& router) {
  const RouterTraits& traits = router.traits;
  if (!traits.variable_active) return c.active_experts();
  const auto experts = static_cast<double>(c.total_experts());
  const double cap =
      traits.most_k > 0 ? static_cast<double>(traits.most_k * c.moe.granularity) : experts;
  return traits.begins_at_k ? std::min(cap, std::max(c.active_experts(), experts / 2)) : cap;
}

/// Floats per token that a layer's routing and experts keep. `inner` is the input of the experts'
/// activation; `kept` is the rest. `tensors` ranks divide the widths.
struct KeptByMoe {
  double kept = 0, inner = 0;
};
KeptByMoe kept_by_moe(const ModelConfig& c, const ResolvedRouter& router, double tensors) {
  const double width = static_cast<double>(c.expert_width()) / tensors,
               shared = 3 * static_cast<double>(c.moe.shared_width) / tensors;
  if (router.traits.merges)  // the blended weights of each segment
    return {.kept = 3 * width + shared + rows_per_token(c) * parameters_of_expert(c) / tensors};
  const double active = most_active(c, router);
  const auto scored = static_cast<double>(c.total_experts() + scorer_of(c, 0)->kept_per_token());
  return {.kept = scored + 7 * active + shared, .inner = active * 2 * width};
}

/// Floats per token of a layer that bf16 products keep more than f32 products; negative if they
/// keep fewer. Inputs of products are rounded to bf16. The router still needs the f32 rows that
/// experts read, and attention still needs its own f32 output.
double more_in_bf16(const ModelConfig& c, bool moe, double tensors) {
  const double d = static_cast<double>(c.d_model), q = static_cast<double>(c.heads * c.head_dim);
  const double inner = static_cast<double>(moe ? c.moe.shared_width : c.dense_width());
  // bf16 copies of the feed-forward's rows beside f32 rows; -1: instead of f32 rows.
  const double readers = moe ? (inner > 0 ? 2 : 1) : -1;
  return (readers - 1) * d / 2 + (q - inner) / 2 / tensors;
}

/// The share of the input matrices in an expert's matrices.
double share_of_inputs(const ModelConfig& c) {
  const auto inputs = static_cast<double>(c.ffn_form().inputs());
  return inputs / (inputs + 1);
}

}  // namespace

ActivationCount::ActivationCount(const ModelConfig& c, const TrainingPass& pass) {
  PENSTOCK_ASSERT(c.is_resolved());
  const bool bf16 = pass.precision == ops::ProductPrecision::bf16;
  const double tensors = pass.tensors, share = pass.divided_rows ? 1 / tensors : 1;
  const auto length = static_cast<double>(pass.sequence_length);
  const auto all = static_cast<double>(c.layers), moe_layers = static_cast<double>(c.moe_layers());
  constexpr double kFloat = 4, kPacked = 2;
  const double bytes = kFloat * forward_passes(c);
  tokens_ = static_cast<double>(pass.micro_batch) * length;
  rows_ = 3 * share * static_cast<double>(c.d_model) * bytes;
  const std::int64_t row = 4 * c.vocab, tokens = pass.micro_batch * pass.sequence_length;
  chunk_ = static_cast<double>(std::min(row * tokens, std::max(row, ops::kLogitsBytes)));

  const ModelMultiplyAdds multiply_adds(c);
  const double attention = kept_by_attention(c, length, tensors, share);
  const double flops_of_attention =
      2 *
      (multiply_adds.queries + multiply_adds.keys_values + multiply_adds.outputs +
       multiply_adds.distances + multiply_adds.pair * (length + 1) / 2) /
      all;
  Layer dense{.input = bytes * 2 * share * static_cast<double>(c.d_model)}, moe = dense;
  dense.within = bytes * (attention + 3 * static_cast<double>(c.dense_width()) / tensors);
  dense.kept = dense.within + (bf16 ? bytes * more_in_bf16(c, false, tensors) : 0);
  dense.flops = flops_of_attention + 2 * multiply_adds.dense / std::max(1.0, all - moe_layers);
  if (bf16) packed_head_ = 2 * kPacked * static_cast<double>(c.vocab * c.d_model);
  if (moe_layers > 0) {
    const ResolvedRouter router = resolve(c.router);
    const auto [kept, inner] = kept_by_moe(c, router, tensors);
    moe.within = bytes * (attention + kept);
    moe.kept = moe.within + (bf16 ? bytes * more_in_bf16(c, true, tensors) : 0);
    moe.inner = bytes * inner;
    const double of_experts = 2 * multiply_adds.expert * c.active_experts();
    moe.flops = flops_of_attention +
                2 * (multiply_adds.shared + multiply_adds.routing) / moe_layers +
                (router.traits.merges ? 2 * multiply_adds.expert : of_experts);
    moe.flops_of_experts_again = router.traits.merges ? 0 : of_experts * share_of_inputs(c);
    if (bf16 && !router.traits.merges) {
      packed_experts_ = kPacked * static_cast<double>(c.total_experts()) * parameters_of_expert(c) /
                        pass.expert_ranks;
      packed_again_ = packed_experts_ * share_of_inputs(c);
    }
  }
  for (std::int64_t i = 0; i < c.layers; ++i) layers_.push_back(c.is_moe(i) ? moe : dense);
}

double ActivationCount::packed_bytes(const Recomputation& recomputed) const {
  const bool again = std::ranges::any_of(recomputed, recomputes_experts);
  return std::max(packed_head_, packed_experts_ + (again ? packed_again_ : 0));
}

Activations ActivationCount::of(const Recomputation& recomputed) const {
  double stored = 0, most = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const Recomputed what = of_layer(recomputed, static_cast<std::int64_t>(i));
    const double inner = recomputes_experts(what) ? 0 : layer.inner, kept = layer.kept + inner;
    stored += recomputes_layer(what) ? layer.input : kept;
    const double rebuilt = recomputes_layer(what) ? kept : 0;
    most = std::max(most, stored + rebuilt + layer.within + inner);
  }
  return {.layers = tokens_ * stored,
          .besides = tokens_ * (most - stored + rows_) + chunk_ + packed_bytes(recomputed)};
}

double ActivationCount::flops_again(const Recomputation& recomputed) const {
  double sum = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Recomputed what = of_layer(recomputed, static_cast<std::int64_t>(i));
    if (recomputes_layer(what)) sum += layers_[i].flops;
    if (recomputes_experts(what)) sum += layers_[i].flops_of_experts_again;
  }
  return tokens_ * sum;
}

Activations activations(const ModelConfig& config, const TrainingPass& pass) {
  return ActivationCount(config, pass).of(pass.recomputed);
}

}  // namespace penstock
