#include "penstock/layers/scorer_tensors.h"

#include "penstock/routers/parameter_names.h"

namespace penstock {
namespace {

/// The name that other programs' models give to the router's matrix.
constexpr const char* kGateTensor = "gate.weight";
/// The prefix of the other scorer tensors in files, and of all scorer parameters in an MoE layer.
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
