#include "penstock/models/adaptive_softmax.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/ops/ops.h"

namespace penstock {
namespace {

/// with_ones() adds a last column of ones to rows. with_bias() adds the bias to a matrix as its
/// last column. The product of both is the affine map, so the head's operator needs no bias.
at::Tensor with_ones(const at::Tensor& hidden) {
  return torch::cat({hidden, torch::ones({hidden.size(0), 1}, hidden.options())}, 1);
}
at::Tensor with_bias(const at::Tensor& weight, const at::Tensor& bias) {
  return torch::cat({weight, bias.unsqueeze(1)}, 1);
}

/// The head's matrices with their biases: [first, clusters...].
std::vector<at::Tensor> matrices(const AdaptiveSoftmax& head, const at::Tensor& weight) {
  const at::Tensor all = with_bias(weight, head.bias);
  if (head.cutoffs.empty()) return {all};
  std::vector<at::Tensor> out = {torch::cat(
      {all.slice(0, 0, head.cutoffs[0]), with_bias(head.cluster_weight, head.cluster_bias)}, 0)};
  for (std::size_t i = 0; i < head.cutoffs.size(); ++i)
    out.push_back(all.slice(0, head.cutoffs[i],
                            i + 1 < head.cutoffs.size() ? head.cutoffs[i + 1] : all.size(0)));
  return out;
}

/// Targets of the first softmax: a word of cluster i counts as entry c_1 + i.
at::Tensor first_targets(const AdaptiveSoftmax& head, const at::Tensor& targets) {
  at::Tensor out = targets;
  for (std::size_t i = 0; i < head.cutoffs.size(); ++i)
    out = torch::where(targets.ge(head.cutoffs[i]),
                       torch::full_like(targets, head.cutoffs[0] + static_cast<std::int64_t>(i)),
                       out);
  return out;
}

/// Calls body(cluster, rows) for each cluster that has targets.
template <class Body>
void each_cluster(const AdaptiveSoftmax& head, const at::Tensor& targets, const Body& body) {
  for (std::size_t i = 0; i < head.cutoffs.size(); ++i) {
    at::Tensor inside = targets.ge(head.cutoffs[i]);
    if (i + 1 < head.cutoffs.size()) inside = inside & targets.lt(head.cutoffs[i + 1]);
    const at::Tensor rows = inside.nonzero().view({-1});
    if (rows.size(0) > 0) body(i, rows);
  }
}

}  // namespace

at::Tensor AdaptiveSoftmax::loss(const at::Tensor& hidden, const at::Tensor& weight,
                                 const at::Tensor& targets) const {
  const std::vector<at::Tensor> w = matrices(*this, weight);
  const at::Tensor rows = with_ones(hidden);
  at::Tensor out = ops::linear_cross_entropy(rows, w[0], first_targets(*this, targets));
  each_cluster(*this, targets, [&](std::size_t i, const at::Tensor& chosen) {
    const double share = static_cast<double>(chosen.size(0)) / static_cast<double>(targets.size(0));
    out = out + share * ops::linear_cross_entropy(rows.index_select(0, chosen), w[i + 1],
                                                  targets.index_select(0, chosen) - cutoffs[i]);
  });
  return out;
}

at::Tensor AdaptiveSoftmax::losses(const at::Tensor& hidden, const at::Tensor& weight,
                                   const at::Tensor& targets) const {
  torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> w = matrices(*this, weight);
  const at::Tensor rows = with_ones(hidden);
  at::Tensor out = ops::linear_cross_entropy_rows(rows, w[0], first_targets(*this, targets));
  each_cluster(*this, targets, [&](std::size_t i, const at::Tensor& chosen) {
    out.index_add_(0, chosen,
                   ops::linear_cross_entropy_rows(rows.index_select(0, chosen), w[i + 1],
                                                  targets.index_select(0, chosen) - cutoffs[i]));
  });
  return out;
}

at::Tensor AdaptiveSoftmax::log_probabilities(const at::Tensor& hidden,
                                              const at::Tensor& weight) const {
  if (cutoffs.empty()) return ops::linear(hidden, weight, bias);
  const std::vector<at::Tensor> w = matrices(*this, weight);
  const at::Tensor rows = with_ones(hidden.reshape({-1, hidden.size(-1)}));
  const at::Tensor first = ops::linear(rows, w[0]).log_softmax(1);  // [R, c_1 + n]
  std::vector<at::Tensor> parts = {first.slice(1, 0, cutoffs[0])};
  for (std::size_t i = 0; i < cutoffs.size(); ++i)
    parts.push_back(ops::linear(rows, w[i + 1]).log_softmax(1) +
                    first.slice(1, cutoffs[0] + static_cast<std::int64_t>(i)).narrow(1, 0, 1));
  auto sizes = hidden.sizes().vec();
  sizes.back() = weight.size(0);
  return torch::cat(parts, 1).view(sizes);
}

}  // namespace penstock
