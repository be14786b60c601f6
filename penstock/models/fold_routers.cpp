#include "penstock/models/fold_routers.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/layers/moe.h"

namespace penstock {
namespace {

std::vector<MoeLayer*> moe_layers(LanguageModel& model) {
  std::vector<MoeLayer*> out;
  for (const auto& module : model.modules(/*include_self=*/false))
    if (auto* const layer = dynamic_cast<MoeLayer*>(module.get())) out.push_back(layer);
  return out;
}

ModelConfig folded_config(const ModelConfig& config, const ResolvedRouter& router, bool bias) {
  ModelConfig out = config;
  out.router.scorer = "linear";
  out.router.selector = router.selector;
  out.router.balancers = std::vector<std::string>();
  ConfigNode options;
  options.set("bias", ConfigNode(bias));
  options.set("frozen", ConfigNode(true));
  out.router.parts = {{"linear", options}};
  if (const auto selector = router.options.find(router.selector); selector != router.options.end())
    out.router.parts[router.selector] = selector->second;
  return out;
}

bool of_scorer(const std::string& name) { return name.find(".scorer.") != std::string::npos; }

void copy_all_but_scorers(LanguageModel& from, LanguageModel& to) {
  const auto copy = [](const auto& source, auto target) {
    for (const auto& item : source)
      if (!of_scorer(item.key()))
        if (at::Tensor* const tensor = target.find(item.key())) tensor->copy_(item.value());
  };
  copy(from.named_parameters(), to.named_parameters());
  copy(from.named_buffers(), to.named_buffers());
}

}  // namespace

std::shared_ptr<LanguageModel> fold_routers(LanguageModel& model) {
  const torch::NoGradGuard no_grad;
  const std::vector<MoeLayer*> layers = moe_layers(model);
  PENSTOCK_CHECK(!layers.empty(), "a dense model has no routers to fold");
  const ResolvedRouter router = resolve(model.config().router);
  PENSTOCK_CHECK(router.traits.foldable, "scorer '", router.scorer,
                 "' is not one matrix and bias outside training: it cannot be folded");
  std::vector<FoldedScorer> folded;
  for (MoeLayer* const layer : layers) folded.push_back(layer->router().scorer().fold());
  auto out = make_model(folded_config(model.config(), router, folded[0].bias.defined()));
  const at::Tensor sample = model.parameters().front();
  out->to(sample.device(), sample.scalar_type());
  copy_all_but_scorers(model, *out);
  const std::vector<MoeLayer*> plain = moe_layers(*out);
  PENSTOCK_ASSERT(plain.size() == layers.size(), "folding keeps every layer");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto parameters = plain[i]->router().scorer().named_parameters();
    parameters["weight"].copy_(folded[i].weight);
    if (folded[i].bias.defined()) parameters["bias"].copy_(folded[i].bias);
  }
  out->train(model.is_training());
  return out;
}

}  // namespace penstock
