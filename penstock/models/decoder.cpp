#include "penstock/models/decoder.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/models/embedding_and_head_names.h"
#include "penstock/models/module_names.h"
#include "penstock/models/pass_draws.h"
#include "penstock/ops/ops.h"

namespace penstock {

Decoder::Decoder(const ModelConfig& unresolved, const ModelPlace& place)
    : LanguageModel(unresolved, place) {
  const ModelConfig& config = this->config();
  if (holds_first()) embedding_and_head_.register_first(*this, config);
  make_shared_balancers();
  std::vector<MoeLayer*> moe;
  std::int64_t moe_index = 0;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::int64_t index = config.is_moe(i) ? moe_index++ : -1;
    auto& layer = layers_.emplace_back();
    if (!place.part.holds(i)) continue;
    layer = register_module(layer_module(i),
                            std::make_shared<DecoderLayer>(config, place, i, index, balancers()));
    if (layer->moe()) moe.push_back(layer->moe());
  }
  take_moe_layers(std::move(moe));
  if (holds_last()) embedding_and_head_.register_last(*this, config);
}

void Decoder::initialize(const InitialDraws& draws) {
  embedding_and_head_.initialize(config(), draws);
  for (std::size_t i = 0; i < layers_.size(); ++i)
    if (layers_[i])
      layers_[i]->initialize(config(), draws.of(layer_module(static_cast<std::int64_t>(i))));
}

at::Tensor Decoder::tied() const {
  const bool apart = holds_first() != holds_last();
  return config().tie_embeddings && apart ? embedding_and_head_.embed_tokens : at::Tensor();
}

void Decoder::tie(const at::Tensor& embeddings) {
  PENSTOCK_ASSERT(config().tie_embeddings && holds_last() && !holds_first());
  embedding_and_head_.embed_tokens = embeddings;
}

at::Tensor Decoder::embedded(const at::Tensor& tokens) const {
  return stored_embeddings_.empty() ? ops::embedding(embedding_and_head_.embed_tokens, tokens)
                                    : ops::embedding(stored_embeddings_, tokens);
}

bool Decoder::passes(const ModelInput& input, std::int64_t layer) const {
  const IndexRange& range = input.layers;
  return range.size() == 0 ? place().part.holds(layer) : range.first <= layer && layer < range.last;
}

Residual Decoder::through(std::int64_t index, Residual x, const Attend& attend,
                          const RoutingContext& context, std::optional<RoutingResult>& routing) {
  DecoderLayer& own = layer(index);
  if (!recomputes_layer(of_layer(recomputed(), index)) || !at::GradMode::is_enabled())
    return own.forward(std::move(x), attend, context, routing);
  return own.forward_again(std::move(x), attend, context, parameters_read_by(own), routing);
}

ModelOutput Decoder::run(const ModelInput& input, const RoutingContext& context,
                         const Attend& attend, const RoutingTap& routing_tap,
                         const HiddenTap& hidden_tap) {
  const std::int64_t layers = config().layers;
  RoutingContext complete = context;
  complete.sequence_length = input.tokens.size(1);
  complete.token_ids = input.tokens.reshape({-1});
  const PassDraws draws(context);
  const RankRows& rows = place().rows;
  ModelOutput out;
  // [B, T, d], or the rows that the rank holds.
  Residual x{.stream = input.stream.defined() ? input.stream : embedded(rows.held(input.tokens))};
  std::int64_t moe_index = -1;
  for (std::int64_t i = 0; i < layers; ++i) {
    if (config().is_moe(i)) ++moe_index;
    if (!passes(input, i)) continue;
    if (input.watch) input.watch(PassDirection::forward, i);
    std::optional<RoutingResult> routing;
    x = through(i, std::move(x), attend, draws.of_layer(complete, i), routing);
    watch_backward(input.watch, i, x.delta);
    if (hidden_tap)
      hidden_tap(i, rows.enter(x.sum()).view({-1, input.tokens.size(1), config().d_model}));
    if (!routing) continue;
    if (routing->loss.defined())
      out.auxiliary_loss =
          out.auxiliary_loss.defined() ? out.auxiliary_loss + routing->loss : routing->loss;
    if (routing_tap) routing_tap(moe_index, *routing);
  }
  if (passes(input, layers - 1))
    out.hidden = embedding_and_head_.norm->forward(x).view({-1, config().d_model});
  else
    out.stream = x.sum();
  return out;
}

ModelOutput Decoder::forward(const ModelInput& input, const RoutingContext& context,
                             const RoutingTap& routing_tap, const HiddenTap& hidden_tap) {
  PENSTOCK_CHECK(input.tokens.dim() == 2, "[decoder] tokens must be [B, T], got ",
                 input.tokens.dim(), " axes");
  const at::Tensor& like = input.stream.defined() ? input.stream : embedding_and_head_.embed_tokens;
  const at::Tensor rotation =
      ops::rotation_table(input.tokens.size(1), config().head_dim, config().rope_base,
                          like.options().requires_grad(false));
  const Attend attend = [rotation, starts = input.starts](std::int64_t, Attention& attention,
                                                          const at::Tensor& normed) {
    return attention.forward(normed, rotation, starts);
  };
  return run(input, context, attend, routing_tap, hidden_tap);
}

ModelOutput Decoder::extend(const at::Tensor& tokens, DecoderCache& cache,
                            std::span<const std::int64_t> rows, const RoutingContext& context,
                            const RoutingTap& routing_tap) {
  PENSTOCK_CHECK(tokens.dim() == 2 && tokens.size(0) == std::ssize(rows), "[decoder] tokens ",
                 tokens.sizes(), " must be [R, n] for R = ", rows.size(), " sequences");
  const CachedRows where = cache.at(rows, tokens.size(1));
  ModelOutput out = run_cached(tokens, cache, {&where, 1}, context, routing_tap);
  cache.advance(rows, tokens.size(1));
  return out;
}

ModelOutput Decoder::extend_parts(const at::Tensor& tokens, DecoderCache& cache,
                                  std::span<const CachePart> parts, const RoutingContext& context,
                                  const RoutingTap& routing_tap) {
  const std::vector<CachedRows> where = cache.at(parts);
  std::int64_t count = 0;
  for (const CachedRows& group : where) count += group.positions();
  PENSTOCK_CHECK(tokens.dim() == 1 && tokens.size(0) == count && count > 0, "[decoder] tokens ",
                 tokens.sizes(), " must be the ", count, " of the parts");
  ModelOutput out = run_cached(tokens.unsqueeze(0), cache, where, context, routing_tap);
  for (const CachePart& part : parts) cache.advance({&part.row, 1}, part.count);
  return out;
}

ModelOutput Decoder::run_cached(const at::Tensor& tokens, const DecoderCache& cache,
                                std::span<const CachedRows> where, const RoutingContext& context,
                                const RoutingTap& routing_tap) {
  const torch::NoGradGuard no_grad;
  const Attend attend = [&](std::int64_t layer, Attention& attention, const at::Tensor& normed) {
    return attention.extend(normed, cache.layer(layer), where);
  };
  return run({.tokens = tokens}, context, attend, routing_tap, {});
}

at::Tensor Decoder::loss(const at::Tensor& hidden, const at::Tensor& targets) const {
  if (!stored_head().empty()) return ops::linear_cross_entropy(hidden, stored_head(), targets);
  const RankRows& rows = place().rows;
  return rows.mean(ops::linear_cross_entropy(hidden, head(), rows.held(targets)));
}
at::Tensor Decoder::losses(const at::Tensor& hidden, const at::Tensor& targets) const {
  if (!stored_head().empty()) return ops::linear_cross_entropy_rows(hidden, stored_head(), targets);
  return ops::linear_cross_entropy_rows(hidden, head(), targets);
}
at::Tensor Decoder::logits(const at::Tensor& hidden) const {
  return ops::linear(hidden, head(), stored_head(), std::nullopt);
}

bool Decoder::read_from(const std::string& parameter, const ops::StoredMatrix& matrix) {
  const bool embeddings = parameter == kEmbeddingsParameter;
  if (!embeddings && parameter != kHeadParameter) return false;
  give_up(embeddings ? embedding_and_head_.embed_tokens : embedding_and_head_.lm_head, matrix);
  (embeddings ? stored_embeddings_ : stored_head_) = matrix;
  return true;
}

}  // namespace penstock
