// Folds routers into plain matrices from a source's tensors, without building its model.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "penstock/convert/export/not_portable.h"
#include "penstock/convert/export/portable_source.h"
#include "penstock/layers/scorer_tensors.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/module_names.h"
#include "penstock/routers/option_changes.h"

namespace penstock {
namespace {

void load_scorer(Scorer& scorer, const ModelSource& from, const std::string& layer) {
  const auto load = [&](const auto& items) {
    for (const auto& item : items)
      item.value().copy_(finite_tensor(from, layer + "mlp." + scorer_tensor_name(item.key())));
  };
  load(scorer.named_parameters());
  load(scorer.named_buffers());
}

/// The routers of the MoE layers, and the layers' names ("model.layers.3.").
struct FoldedRouters {
  std::vector<FoldedScorer> routers;
  std::vector<std::string> layers;
};

FoldedRouters fold_all(const ModelSource& from) {
  const ModelConfig& config = from.config();
  const auto scorers = scorers_of(config);
  FoldedRouters out;
  for (const std::int64_t layer : config.moe_layer_indices())
    out.layers.push_back(layer_stem(layer));
  PENSTOCK_ASSERT(out.layers.size() == scorers.size());
  for (std::size_t i = 0; i < scorers.size(); ++i) {
    scorers[i]->eval();
    scorers[i]->to(at::kDouble);
    load_scorer(*scorers[i], from, out.layers[i]);
  }
  for (const auto& scorer : scorers) out.routers.push_back(scorer->fold());
  return out;
}

/// Largest difference between the experts' biases. A bias that is equal for all experts changes
/// neither the softmax nor the order.
double spread(const FoldedScorer& router) {
  return router.bias.defined() ? (router.bias - router.bias[0]).abs().max().item<double>() : 0;
}

}  // namespace

std::map<std::string, at::Tensor> folded_gates(const ModelSource& from,
                                               const std::vector<at::Tensor>& ones) {
  const torch::NoGradGuard no_grad;
  const auto [routers, layers] = fold_all(from);
  PENSTOCK_ASSERT(ones.empty() || ones.size() == layers.size());
  std::map<std::string, at::Tensor> out;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    at::Tensor weight = routers[i].weight;
    if (const double apart = spread(routers[i]); apart > 0) {
      if (ones.empty())
        fail_needs_bias(concat("in layer ", layers[i].substr(0, layers[i].size() - 1),
                               " they differ by up to ", apart),
                        bias_key(from.config().router));
      weight = weight + at::outer(routers[i].bias - routers[i].bias.mean(), ones[i]);
    }
    out[layers[i] + "mlp.gate.weight"] = weight.to(at::kFloat).contiguous();
  }
  return out;
}

bool routers_add_biases(const ModelSource& from) {
  const torch::NoGradGuard no_grad;
  const auto folded = fold_all(from);
  return std::ranges::any_of(folded.routers, [](const auto& one) { return spread(one) > 0; });
}

}  // namespace penstock
