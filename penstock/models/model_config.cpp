#include "penstock/models/model_config.h"

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/models/generation_check.h"

namespace penstock {

namespace {

/// Counts of parameters, bytes and FLOPs are 64-bit integers; this bound keeps them far from
/// wrapping.
void check_size(const ModelConfig& c) {
  const auto d = static_cast<double>(c.d_model), layers = static_cast<double>(c.layers);
  const double experts = std::max<double>(1, static_cast<double>(c.moe.experts));
  const double parameters =
      2 * d * static_cast<double>(c.vocab) +
      layers * d *
          (4 * static_cast<double>(c.heads) * static_cast<double>(c.head_dim) +
           experts * (3 * static_cast<double>(c.d_ffn) + static_cast<double>(c.moe.granularity)) +
           3 * static_cast<double>(c.moe.shared_width + c.moe.dense_width));
  PENSTOCK_CHECK(parameters <= 1e15, "model.d_model = ", c.d_model, ", model.layers = ", c.layers,
                 " and the rest make a model of about ", parameters,
                 " parameters; the limit is 1e15");
  PENSTOCK_CHECK(d * static_cast<double>(c.moe.shared_width) <= 1LL << 32,
                 "model.moe.shared_width = ", c.moe.shared_width,
                 " and model.d_model = ", c.d_model, " make a matrix of above 2^32 entries");
}

/// Fills in and checks the values that differ for Transformer-XL.
void resolve_transformer_xl(ModelConfig& c) {
  c.tie_embeddings = true;
  PENSTOCK_CHECK(c.kv_heads == 0 || c.kv_heads == c.heads, "model.kv_heads = ", c.kv_heads,
                 ": transformer-xl has as many as model.heads = ", c.heads);
  PENSTOCK_CHECK(!c.qkv_bias && c.init == WeightInit::normal,
                 "model.qkv_bias and a model.init but \"normal\" are not for transformer-xl");
  PENSTOCK_CHECK(c.norm_of_qk() == QkNorm::none && c.clip_qkv == 0 && c.moe.shared_width == 0 &&
                     !c.moe.shared_gate,
                 "model.qk_norm, model.qk_norm_per_head, model.clip_qkv and model.moe.shared_width "
                 "are not for transformer-xl");
  PENSTOCK_CHECK(c.d_model % 2 == 0, "model.d_model = ", c.d_model,
                 ": transformer-xl's sines and cosines need an even one");
  if (c.xl.memory < 0) c.xl.memory = c.context;
  PENSTOCK_CHECK(c.xl.ffn_dropout >= 0 || c.xl.ffn_dropout == -1,
                 "model.transformer_xl.ffn_dropout = ", c.xl.ffn_dropout,
                 ": must be 0 to 0.99, or -1 for model.transformer_xl.dropout");
  std::int64_t last = 0;
  for (const std::int64_t cutoff : c.xl.cutoffs) {
    PENSTOCK_CHECK(cutoff > last && (c.vocab <= 1 || cutoff < c.vocab),
                   "model.transformer_xl.cutoffs must ascend between 0 and model.vocab = ", c.vocab,
                   "; ", cutoff, " does not");
    last = cutoff;
  }
}

}  // namespace

ModelConfig ModelConfig::resolved() const {
  ModelConfig c = *this;
  if (c.transformer_xl()) resolve_transformer_xl(c);
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.d_ffn == 0) c.d_ffn = 4 * c.d_model;
  const char* const width = c.head_dim > 0 ? "model.head_dim" : "model.d_model / model.heads";
  if (c.head_dim == 0) {
    PENSTOCK_CHECK(c.d_model % c.heads == 0, "model.d_model = ", c.d_model,
                   " is not a multiple of model.heads = ", c.heads,
                   "; change one, or set model.head_dim");
    c.head_dim = c.d_model / c.heads;
  }
  PENSTOCK_CHECK(c.heads % c.kv_heads == 0, "model.heads = ", c.heads,
                 " is not a multiple of model.kv_heads = ", c.kv_heads);
  PENSTOCK_CHECK(c.transformer_xl() || c.head_dim % 2 == 0, width, " = ", c.head_dim,
                 " is the width of a head; rotary positions need an even one");
  PENSTOCK_CHECK(
      !c.qk_norm || !c.qk_norm_per_head,
      "model.qk_norm norms q and k over all heads, and model.qk_norm_per_head over each; "
      "set one of them");
  check_size(c);
  // Checks that parts exist, fit together and have valid options.
  const ResolvedRouter router = resolve(c.router);
  if (router.dense()) {
    c.moe = {};
    return c;
  }
  PENSTOCK_CHECK(c.moe.experts >= 2, "model.router.method = '", c.router.method,
                 "' needs model.moe.experts of 2 or more, got ", c.moe.experts,
                 "; or set model.router.method = \"dense\"");
  PENSTOCK_CHECK(c.d_ffn % c.moe.granularity == 0, "model.moe.granularity = ", c.moe.granularity,
                 " is not a divisor of model.d_ffn = ", c.d_ffn);
  PENSTOCK_CHECK(c.moe.dense_layers == 0 || c.moe.dense_layers < c.layers,
                 "model.moe.dense_layers = ", c.moe.dense_layers, " of model.layers = ", c.layers,
                 " leaves no layer with experts");
  PENSTOCK_CHECK(c.moe.dense_width == 0 || c.moe_layers() < c.layers,
                 "model.moe.dense_width = ", c.moe.dense_width,
                 " is for layers without experts, and every layer has them");
  PENSTOCK_CHECK(!c.moe.shared_gate || c.moe.shared_width > 0,
                 "model.moe.shared_gate gates a shared expert, and model.moe.shared_width = 0 has "
                 "none");
  check_k(c.router.k, static_cast<double>(c.moe.experts), "model.router.k", "model.moe.experts");
  PENSTOCK_CHECK(router.traits.has_k || router.traits.variable_active || c.active_experts() == 1,
                 "model.router.k = ", c.router.k, " with granularity ", c.moe.granularity,
                 ": selector '", router.selector, "' always uses one expert; leave both at 1");
  // Code that lists a model's tensors builds its scorers. This bound keeps a config from outside
  // from choosing how much memory that takes.
  PENSTOCK_CHECK(static_cast<double>(c.total_experts()) * static_cast<double>(c.d_model) <= 0x1p24,
                 "model.moe.experts = ", c.moe.experts, " with granularity ", c.moe.granularity,
                 " and model.d_model = ", c.d_model,
                 " make routers of more than 2^24 numbers, the limit");
  if (c.moe_layers() > 0) check_options(router, router_shape(c.moe_options(0)));
  return c;
}

bool ModelConfig::is_moe(std::int64_t layer) const {
  if (moe.experts < 2 || router.dense()) return false;
  if (layer < moe.dense_layers || (moe.first_layers >= 0 && layer >= moe.first_layers))
    return false;
  return (layer - moe.dense_layers) % moe.every == 0;
}

std::int64_t ModelConfig::moe_layers() const {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) count += is_moe(layer);
  return count;
}

std::vector<std::int64_t> ModelConfig::moe_layer_indices() const {
  std::vector<std::int64_t> out;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (is_moe(layer)) out.push_back(layer);
  return out;
}

FfnForm ModelConfig::ffn_form() const {
  if (!transformer_xl()) return {};
  return {.activation = ops::Activation::relu,
          .bias = true,
          .dropout = xl.ffn_dropout >= 0 ? xl.ffn_dropout : xl.dropout};
}

double ModelConfig::weight_std(std::int64_t fan_in) const {
  return init == WeightInit::fan_in ? 1 / std::sqrt(3.0 * static_cast<double>(fan_in)) : init_std;
}

double ModelConfig::output_std(std::int64_t fan_in) const {
  return init == WeightInit::normal ? init_std / std::sqrt(2.0 * static_cast<double>(layers))
                                    : weight_std(fan_in);
}

RouterTraits ModelConfig::traits() const {
  return moe_layers() > 0 ? resolve(router).traits : RouterTraits{};
}

bool ModelConfig::causal() const { return traits().causal; }

bool ModelConfig::by_thresholds() const { return traits().keeps_thresholds; }

std::string choice_note(const ModelConfig& config) {
  if (config.by_thresholds())
    return concat("method '", config.router.method, "' chooses by thresholds: ", kByThresholds);
  if (config.causal()) return "";
  return not_causal_text(config.router.method, config.traits(), kNotCausal);
}

MoeOptions ModelConfig::moe_options(std::int64_t index) const {
  return {.d_model = d_model,
          .d_ffn = expert_width(),
          .experts = total_experts(),
          .router = router,
          .granularity = static_cast<double>(moe.granularity),
          .init_std = weight_std(d_model),
          .output_std = transformer_xl() ? init_std : output_std(expert_width()),
          .form = ffn_form(),
          .shared_width = moe.shared_width,
          .shared_gate = moe.shared_gate,
          .shared_output_std = moe.shared_width > 0 ? output_std(moe.shared_width) : 0,
          .layer = index,
          .layers = moe_layers()};
}

}  // namespace penstock
