// Routers as plain matrices, from a source, without its model.
#include <torch/torch.h>

#include "penstock/convert/portable_source.h"
#include "penstock/models/model_directory.h"
#include "penstock/models/tensor_shapes.h"

namespace penstock {
namespace {

void load_scorer(Scorer& scorer, const ModelSource& from, const std::string& layer) {
  const auto load = [&](const auto& items) {
    for (const auto& item : items)
      item.value().copy_(finite_tensor(
          from, layer + "mlp." +
                    (item.key() == "weight" ? "gate.weight" : "router.scorer." + item.key())));
  };
  load(scorer.named_parameters());
  load(scorer.named_buffers());
}

}  // namespace

std::map<std::string, at::Tensor> folded_gates(const ModelSource& from) {
  const torch::NoGradGuard no_grad;
  const ModelConfig& config = from.config();
  const auto scorers = scorers_of(config);
  std::map<std::string, at::Tensor> out;
  std::vector<std::string> layers;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    if (config.is_moe(layer)) layers.push_back("model.layers." + std::to_string(layer) + ".");
  PENSTOCK_ASSERT(layers.size() == scorers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    scorers[i]->eval();
    scorers[i]->to(at::kDouble);
    load_scorer(*scorers[i], from, layers[i]);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const FoldedScorer folded = scorers[i]->fold();
    if (folded.bias.defined()) {  // one number for all experts changes no softmax and no order
      const double spread = (folded.bias - folded.bias[0]).abs().max().item<double>();
      if (spread > 0)
        fail_needs_bias(concat("in layer ", layers[i].substr(0, layers[i].size() - 1),
                               " they differ by up to ", spread));
    }
    out[layers[i] + "mlp.gate.weight"] = folded.weight.to(at::kFloat).contiguous();
  }
  return out;
}

}  // namespace penstock
