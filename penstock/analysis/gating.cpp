#include "penstock/analysis/gating.h"

#include <torch/types.h>

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock::analysis {

at::Tensor Gating::active(const at::Tensor& x) const {
  at::Tensor z = weight.mv(x);  // [E]
  if (bias.defined()) z = z + bias;
  if (form == GateForm::relu) return z.gt(0).nonzero().flatten();
  return std::get<0>(std::get<1>(z.topk(k)).sort());
}

at::Tensor Gating::rows(const at::Tensor& x) const {
  const at::Tensor kept = active(x), w = weight.index_select(0, kept);  // [a], [a, d]
  if (form == GateForm::relu) return w;
  at::Tensor z = weight.mv(x);
  if (bias.defined()) z = z + bias;
  if (form == GateForm::softmax_over_kept) {
    const at::Tensor g = z.index_select(0, kept).softmax(0);
    return g.unsqueeze(1) * (w - g.unsqueeze(0).matmul(w));
  }
  const at::Tensor g = z.softmax(0);  // [E]
  return g.index_select(0, kept).unsqueeze(1) * (w - g.unsqueeze(0).matmul(weight));
}

std::int64_t Gating::rank_bound(std::int64_t active) const {
  const std::int64_t experts = weight.size(0), width = weight.size(1);
  if (form == GateForm::softmax_over_kept) return std::clamp<std::int64_t>(active - 1, 0, width);
  if (form == GateForm::softmax_over_all) return std::min({active, experts - 1, width});
  return std::min(active, width);
}

std::int64_t Gating::span_bound() const {
  return std::min(weight.size(1), weight.size(0) - (form == GateForm::relu ? 0 : 1));
}

std::string declines_gating(const ResolvedRouter& router) {
  if (!router.traits.foldable)
    return concat("scorer '", router.scorer,
                  "' is no matrix that multiplies the token, so there are no router rows to span");
  if (router.traits.gates == GateForm::other || router.traits.drops)
    return concat("selector '", router.selector,
                  "' is neither top-k with a softmax nor ReLU: its gates are not a function of one "
                  "token's logits in closed form");
  if (router.traits.biases_choice)
    return "a bias moves the choice of experts, which the closed form leaves out";
  return "";
}

}  // namespace penstock::analysis
