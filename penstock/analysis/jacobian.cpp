#include "penstock/analysis/jacobian.h"

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "penstock/analysis/probe.h"
#include "penstock/analysis/rank.h"
#include "penstock/base/error.h"
#include "penstock/layers/all_outputs.h"

namespace penstock::analysis {
namespace {

at::Tensor in_double(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().to(at::kCPU, at::kDouble).contiguous() : tensor;
}

std::shared_ptr<Experts> in_double(Experts& experts, const MoeOptions& options) {
  auto out =
      std::make_shared<Experts>(options.experts, options.d_model, options.d_ffn, options.form);
  out->to(at::kDouble);
  torch::NoGradGuard no_grad;
  auto to = out->named_parameters();
  for (const auto& parameter : experts.named_parameters())
    to[parameter.key()].copy_(parameter.value());
  for (at::Tensor& parameter : out->parameters()) parameter.requires_grad_(false);
  return out;
}

/// The Jacobian ∂f_i/∂x of a function f that maps each row independently. x is copied to n rows,
/// and entry i of f is taken from row i, so that one backward pass gives the whole Jacobian.
/// @param f  maps [n, d] to [n, n].  @return [n, d]
template <class F>
at::Tensor jacobian_by_rows(const at::Tensor& x, std::int64_t entries, const F& f) {
  if (entries == 0) return at::zeros({0, x.size(0)}, x.options());
  const at::Tensor rows = x.expand({entries, x.size(0)}).clone().requires_grad_(true);
  const at::Tensor wanted = f(rows).diagonal().sum();
  if (!wanted.requires_grad()) return at::zeros_like(rows);
  const at::Tensor gradient =
      torch::autograd::grad({wanted}, {rows}, {}, c10::nullopt, false, true)[0];
  return gradient.defined() ? gradient : at::zeros_like(rows);
}

double frobenius(const at::Tensor& matrix) { return matrix.norm().item<double>(); }

double relative(const at::Tensor& error, const at::Tensor& of) {
  const double size = frobenius(of);
  return size > 0 ? frobenius(error) / size : frobenius(error);
}

}  // namespace

RoutedLayer::RoutedLayer(const MoeOptions& options, MoeLayer& layer,
                         std::optional<std::int64_t> k) {
  ResolvedRouter resolved = resolve(options.router);
  const std::string reason = declines_gating(resolved);
  PENSTOCK_CHECK(reason.empty(), reason);
  RouterShape shape = router_shape(options);
  if (k) {
    shape.k = static_cast<double>(*k);
    shape.granularity = 1;
  }
  const FoldedScorer folded = layer.router().scorer().fold();
  gating_ = {.weight = in_double(folded.weight),
             .bias = in_double(folded.bias),
             .form = resolved.traits.gates,
             .k = static_cast<std::int64_t>(shape.k)};
  ConfigNode& selector_options = resolved.options.at(resolved.selector);
  if (k && selector_options.find("schedule"))  // a schedule would end at the router's own k
    selector_options.set("schedule", ConfigNode::Table{});
  selector_ = make_selector(resolved, shape);
  experts_ = in_double(layer.experts(), options);
}

Plan RoutedLayer::plan(const at::Tensor& x) {
  at::Tensor logits = x.matmul(gating_.weight.t());  // [n, E]
  if (gating_.bias.defined()) logits = logits + gating_.bias;
  return selector_->select({.logits = logits}, {.sequence_length = x.size(0)});
}

at::Tensor RoutedLayer::forward(const at::Tensor& x) { return experts_->forward(x, plan(x)); }

LayerJacobian RoutedLayer::jacobian(const at::Tensor& token) {
  const at::AutoGradMode with_gradient(true);
  const at::Tensor x = in_double(token);  // [d]
  const std::int64_t width = x.size(0);
  LayerJacobian out;
  out.whole = jacobian_by_rows(x, width, [&](const at::Tensor& rows) { return forward(rows); });
  out.experts = jacobian_by_rows(x, width, [&](const at::Tensor& rows) {
    Plan held = plan(rows.detach());
    return experts_->forward(rows, held);
  });
  out.gates = jacobian_by_rows(x, width, [&](const at::Tensor& rows) {
    return experts_->forward(rows.detach(), plan(rows));
  });
  const at::Tensor active = gating_.active(x);  // [a]
  const std::int64_t count = active.size(0);
  out.gate_rows = jacobian_by_rows(x, count, [&](const at::Tensor& rows) {
    // All rows are equal, so all tokens have the same experts. Plans are sorted by expert, so the a
    // weights of expert j are contiguous.
    return plan(rows).weight.view({count, count});
  });
  out.gate_rows_closed = gating_.rows(x);
  const at::Tensor outputs =
      all_outputs(*experts_, gating_.weight.size(0), x.unsqueeze(0)).squeeze(1);  // [E, d]
  out.gates_closed = outputs.index_select(0, active).t().matmul(out.gate_rows_closed);
  return out;
}

JacobianSummary summarize_jacobians(RoutedLayer& layer, const at::Tensor& tokens) {
  const Gating& gating = layer.gating();
  JacobianSummary out{.k = gating.form == GateForm::relu ? 0 : gating.k,
                      .tokens = tokens.size(0),
                      .least = tokens.size(1),
                      .bound_least = tokens.size(1),
                      .span_bound = gating.span_bound()};
  std::vector<at::Tensor> all_rows;
  for (const at::Tensor& token : tokens.unbind(0)) {
    const LayerJacobian j = layer.jacobian(token);
    const std::int64_t rank = rank_of(j.gates).numerical,
                       bound = gating.rank_bound(j.gate_rows.size(0));
    out.least = std::min(out.least, rank);
    out.most = std::max(out.most, rank);
    out.bound_least = std::min(out.bound_least, bound);
    out.bound_most = std::max(out.bound_most, bound);
    out.bounds_hold = out.bounds_hold && rank <= bound;
    const double first = frobenius(j.experts), second = frobenius(j.gates);
    if (first + second > 0)
      out.share += second / (first + second) / static_cast<double>(out.tokens);
    out.sum_error = std::max(out.sum_error, relative(j.whole - j.experts - j.gates, j.whole));
    out.closed_error = std::max(out.closed_error, relative(j.gates - j.gates_closed, j.gates));
    all_rows.push_back(j.gate_rows);
  }
  if (!all_rows.empty()) out.together = rank_of(at::cat(all_rows)).numerical;
  out.bounds_hold = out.bounds_hold && out.together <= out.span_bound;
  return out;
}

}  // namespace penstock::analysis
