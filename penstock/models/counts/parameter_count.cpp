#include "penstock/models/counts/parameter_count.h"

#include <torch/types.h>

#include <cmath>

#include "penstock/models/counts/model_tensors.h"

namespace penstock {

ParameterCounts count_parameters(const ModelConfig& c) {
  std::int64_t common = 0, experts = 0;
  ParameterCounts out;
  for (const ModelTensor& tensor : backbone_tensors(c)) {
    (tensor.experts > 0 ? experts : common) += tensor.size();
    if (tensor.role == TensorRole::embedding) out.embedding += tensor.size();
  }
  for (const auto& scorer : scorers_of(c)) {
    for (const at::Tensor& parameter : scorer->parameters())
      (parameter.requires_grad() ? out.router : out.frozen) += parameter.numel();
    const ScorerParameters parts_of_scorer = scorer->parameters_by_part();
    out.by_part.router += parts_of_scorer.router;
    out.by_part.router_embedding += parts_of_scorer.embedding;
    out.by_part.hypernetwork += parts_of_scorer.network;
  }
  out.by_part.backbone = common + experts * c.total_experts();
  out.total = out.by_part.backbone + out.router;
  out.active =
      common + out.router + std::llround(static_cast<double>(experts) * c.active_experts());
  return out;
}

}  // namespace penstock
