#include "penstock/models/transformer_xl.h"

#include <torch/types.h>

#include <cmath>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/models/module_names.h"
#include "penstock/models/pass_draws.h"
#include "penstock/ops/ops.h"

namespace penstock {
namespace {

/// A copy of the last `length` positions of memory and segment, [B, ≤ length, d].
at::Tensor carry(const at::Tensor& memory, const at::Tensor& x, std::int64_t length) {
  const at::Tensor now = x.detach();
  const std::int64_t fresh = now.size(1), older = memory.defined() ? memory.size(1) : 0;
  if (fresh >= length) return now.narrow(1, fresh - length, length).contiguous();
  if (older == 0) return now;
  const std::int64_t kept = std::min(older, length - fresh);
  return torch::cat({memory.narrow(1, older - kept, kept), now}, 1);
}

}  // namespace

TransformerXl::TransformerXl(const ModelConfig& unresolved, const ModelPlace& place)
    : LanguageModel(unresolved, place) {
  const ModelConfig& config = this->config();
  embedding_and_head_.register_first(*this, config);
  make_shared_balancers();
  std::int64_t moe_index = 0;
  for (std::int64_t i = 0; i < config.layers; ++i)
    layers_.push_back(register_module(
        layer_module(i), std::make_shared<TransformerXlLayer>(
                             config, place, i, config.is_moe(i) ? moe_index++ : -1, balancers())));
  std::vector<MoeLayer*> moe;
  for (const auto& layer : layers_)
    if (layer->moe()) moe.push_back(layer->moe());
  take_moe_layers(std::move(moe));
  embedding_and_head_.register_last(*this, config);
}

void TransformerXl::initialize(const InitialDraws& draws) {
  embedding_and_head_.initialize(config(), draws);
  for (std::size_t i = 0; i < layers_.size(); ++i)
    layers_[i]->initialize(config().init_std, draws.of(layer_module(static_cast<std::int64_t>(i))));
}

std::int64_t TransformerXl::memory_length(const ModelInput& input) const {
  return input.memory_length >= 0 ? input.memory_length : config().xl.memory;
}

at::Tensor TransformerXl::through(std::int64_t index, const at::Tensor& x, const at::Tensor& memory,
                                  const at::Tensor& distances, const DropoutSeeds& seeds,
                                  const RoutingContext& context,
                                  std::optional<RoutingResult>& routing) {
  TransformerXlLayer& layer = *layers_[static_cast<std::size_t>(index)];
  if (!recomputes_layer(of_layer(recomputed(), index)) || !at::GradMode::is_enabled())
    return layer.forward(x, memory, distances, embedding_and_head_.biases, seeds, context, routing);
  std::vector<at::Tensor> parameters = parameters_read_by(layer);
  for (const at::Tensor& bias :
       {embedding_and_head_.biases.content, embedding_and_head_.biases.position})
    if (bias.defined()) parameters.push_back(bias);
  return layer.forward_again(x, memory, distances, embedding_and_head_.biases, seeds, context,
                             parameters, routing);
}

ModelOutput TransformerXl::forward(const ModelInput& input, const RoutingContext& context,
                                   const RoutingTap& routing_tap, const HiddenTap& hidden_tap) {
  const ModelConfig& c = config();
  PENSTOCK_CHECK(input.tokens.dim() == 2, "[transformer-xl] tokens must be [B, T], got ",
                 input.tokens.dim(), " axes");
  PENSTOCK_CHECK(!input.starts,
                 "[transformer-xl] documents cannot be isolated: the memory reaches "
                 "over their borders");
  PENSTOCK_CHECK(input.memory.empty() || (std::ssize(input.memory) == c.layers &&
                                          input.memory[0].size(0) == input.tokens.size(0)),
                 "[transformer-xl] a memory of ", input.memory.size(), " layers does not fit ",
                 c.layers, " layers and tokens ", input.tokens.sizes());
  RoutingContext complete = context;
  complete.sequence_length = input.tokens.size(1);
  complete.token_ids = input.tokens.reshape({-1});
  const DropoutSeeds seeds(c.xl.dropout, context);
  const PassDraws draws(context);
  const std::int64_t length = memory_length(input);
  const std::int64_t older = input.memory.empty() ? 0 : input.memory[0].size(1);
  ModelOutput out;
  at::Tensor x = ops::embedding(embedding_and_head_.embed_tokens, input.tokens) *
                 std::sqrt(static_cast<double>(c.d_model));  // [B, T, d]
  x = seeds.apply(x, DropoutSeeds::kEmbedding);
  const at::Tensor distances = seeds.apply(
      distance_table(older + input.tokens.size(1), c.d_model, x.options().requires_grad(false)),
      DropoutSeeds::kDistances);  // [M+T, d]
  std::int64_t moe_index = 0;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const at::Tensor memory = older > 0 ? input.memory[static_cast<std::size_t>(i)] : at::Tensor();
    if (length > 0) out.memory.push_back(carry(memory, x, length));
    if (input.watch) input.watch(PassDirection::forward, i);
    std::optional<RoutingResult> routing;
    x = through(i, x, memory, distances, seeds, draws.of_layer(complete, i), routing);
    watch_backward(input.watch, i, x);
    if (hidden_tap) hidden_tap(i, x);
    if (!routing) continue;
    if (routing->loss.defined())
      out.auxiliary_loss =
          out.auxiliary_loss.defined() ? out.auxiliary_loss + routing->loss : routing->loss;
    if (routing_tap) routing_tap(moe_index, *routing);
    ++moe_index;
  }
  out.hidden = seeds.apply(x, DropoutSeeds::kOutput).view({-1, c.d_model});  // [B·T, d]
  return out;
}

at::Tensor TransformerXl::loss(const at::Tensor& hidden, const at::Tensor& targets) const {
  return embedding_and_head_.head.loss(hidden, embedding_and_head_.embed_tokens, targets);
}
at::Tensor TransformerXl::losses(const at::Tensor& hidden, const at::Tensor& targets) const {
  return embedding_and_head_.head.losses(hidden, embedding_and_head_.embed_tokens, targets);
}
at::Tensor TransformerXl::logits(const at::Tensor& hidden) const {
  return embedding_and_head_.head.log_probabilities(hidden, embedding_and_head_.embed_tokens);
}

}  // namespace penstock
