#include "penstock/models/fold_routers.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/models/make_model.h"
#include "penstock/routers/parameter_names.h"
#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

bool of_router_parts(const std::string& name) {
  return name.find(".scorer.") != std::string::npos || name.starts_with("balancer_");
}

void copy_buffers(const Balancer& from, Balancer& to) {
  auto targets = to.named_buffers();
  for (const auto& item : from.named_buffers()) targets[item.key()].copy_(item.value());
}

/// Copies everything that passes outside training read, except the scorers.
void copy_the_rest(LanguageModel& from, LanguageModel& to) {
  const auto copy = [](const auto& source, auto target) {
    for (const auto& item : source)
      if (!of_router_parts(item.key()))
        if (at::Tensor* const tensor = target.find(item.key())) tensor->copy_(item.value());
  };
  copy(from.named_parameters(), to.named_parameters());
  copy(from.named_buffers(), to.named_buffers());
  const ResolvedRouter router = resolve(from.config().router);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < router.balancers.size(); ++i)
    if (outlives_folding(router, router.balancers[i]))
      copy_buffers(*from.balancers().at(i), *to.balancers().at(kept++));
}

}  // namespace

std::shared_ptr<LanguageModel> fold_routers(LanguageModel& model) {
  const torch::NoGradGuard no_grad;
  const std::vector<MoeLayer*>& layers = model.moe_layers();
  PENSTOCK_CHECK(!layers.empty(), "a dense model has no routers to fold");
  const ResolvedRouter router = resolve(model.config().router);
  PENSTOCK_CHECK(router.traits.foldable, "scorer '", router.scorer,
                 "' is not one matrix and bias outside training: it cannot be folded");
  std::vector<FoldedScorer> folded;
  for (MoeLayer* const layer : layers) folded.push_back(layer->router().scorer().fold());
  ModelConfig config = model.config();
  config.router = folded_router(config.router, folded[0].bias.defined());
  auto out = make_model(config);
  const at::Tensor sample = model.parameters().front();
  out->to(sample.device(), sample.scalar_type());
  copy_the_rest(model, *out);
  const std::vector<MoeLayer*>& plain = out->moe_layers();
  PENSTOCK_ASSERT(plain.size() == layers.size(), "folding keeps every layer");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto parameters = plain[i]->router().scorer().named_parameters();
    parameters[kScorerWeight].copy_(folded[i].weight);
    if (folded[i].bias.defined()) parameters[kScorerBias].copy_(folded[i].bias);
  }
  out->train(model.is_training());
  return out;
}

}  // namespace penstock
