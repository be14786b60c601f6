#include "penstock/layers/scorer_tensors.h"

#include "penstock/routers/parameter_names.h"

namespace penstock {
namespace {

/// What other programs' models have of a router.
constexpr const char* kGateTensor = "gate.weight";
/// What the rest begins with, and all of a scorer in an MoE layer.
constexpr const char* kScorerStem = "router.scorer.";

}  // namespace

std::string scorer_tensor_name(const std::string& key) {
  return key == kScorerWeight ? kGateTensor : kScorerStem + key;
}

std::optional<std::string> scorer_parameter(const std::string& name) {
  const std::string stem = kScorerStem;
  if (name == kGateTensor) return kScorerWeight;
  if (!name.starts_with(stem)) return {};
  return name.substr(stem.size());
}

void describe_scorer(const Scorer& scorer, const LayerTensors& at) {
  at.add_module(scorer, kScorerStem, TensorRole::router, scorer_tensor_name);
}

}  // namespace penstock
