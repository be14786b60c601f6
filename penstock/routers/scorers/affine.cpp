#include "penstock/routers/scorers/affine.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/ops/ops.h"
#include "penstock/ops/optional_tensor.h"
#include "penstock/routers/parameter_names.h"

namespace penstock {

AffineScorer::AffineScorer(const RouterShape& shape, bool bias, bool frozen) {
  weight_ = register_parameter(kScorerWeight, at::empty({shape.experts, shape.d_model}), !frozen);
  if (bias) bias_ = register_parameter(kScorerBias, at::empty({shape.experts}), !frozen);
}

Scores AffineScorer::score(const at::Tensor& hidden, const RoutingContext&) {
  return {.logits = logits(hidden)};
}

FoldedScorer AffineScorer::fold() const {
  return {.weight = weight_.detach(), .bias = bias_.defined() ? bias_.detach() : bias_};
}

void AffineScorer::initialize(double std, const InitialDraws& draws) {
  torch::NoGradGuard no_grad;
  draws.normal(kScorerWeight, weight_, std);
  if (bias_.defined()) bias_.zero_();
}

bool AffineScorer::scale_logits(double factor) {
  torch::NoGradGuard no_grad;
  weight_.mul_(factor);
  if (bias_.defined()) bias_.mul_(factor);
  return true;
}

std::set<std::string> AffineScorer::rows_by_expert() const { return {kScorerWeight, kScorerBias}; }

std::int64_t AffineScorer::multiply_adds_per_token() const { return weight_.numel(); }

at::Tensor AffineScorer::logits(const at::Tensor& hidden) const {
  return ops::linear(hidden, weight_, ops::if_defined(bias_));
}

}  // namespace penstock
