// Parts by name for the tests, with options given as key-value pairs.
#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "penstock/routers/registry.h"
#include "penstock/routers/resolve.h"

namespace penstock::testing {

using Options = std::map<std::string, ConfigNode::Value>;

inline ConfigNode node(const Options& options) {
  ConfigNode out{ConfigNode::Table{}};
  for (const auto& [key, value] : options) out.set(key, value);
  return out;
}

/// The value of an option of a part in use.
template <class T>
T option(const ResolvedRouter& router, const std::string& part, const std::string& key) {
  return std::get<T>(router.options.at(part).find(key)->value());
}

inline std::shared_ptr<Selector> selector(const std::string& name, const RouterShape& shape,
                                          const Options& options = {}) {
  return selector_registry().at(name).make(shape, node(options));
}

inline std::shared_ptr<Balancer> balancer(const std::string& name, const RouterShape& shape,
                                          const Options& options = {}) {
  return balancer_registry().at(name).make(shape, node(options));
}

inline at::Tensor matrix(const std::vector<std::vector<double>>& rows) {
  std::vector<at::Tensor> out;
  for (const auto& row : rows) out.push_back(torch::tensor(row, at::kDouble));
  return torch::stack(out);
}

/// The largest absolute difference between entries of `a` and `b`, in f64; 0 if both are empty.
inline double farthest(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 && b.numel() == 0) return 0;
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

/// The plan as a matrix: each token's weight on each expert, 0 where there is no assignment.
inline at::Tensor dense_weights(const Plan& plan) {
  if (plan.merges()) return plan.merge_weights.detach().repeat_interleave(plan.segment_length, 0);
  at::Tensor out = at::zeros({plan.tokens, plan.experts}, plan.weight.options());
  out.index_put_({plan.token, plan.expert}, plan.weight.detach());
  return out;
}

/// Which experts each token is assigned to. All experts in a merging plan. [T, E] bool
inline at::Tensor dense_mask(const Plan& plan) {
  if (plan.merges()) return at::ones({plan.tokens, plan.experts}, at::kBool);
  at::Tensor out = at::zeros({plan.tokens, plan.experts}, at::kBool);
  out.index_put_({plan.token, plan.expert}, torch::tensor(true));
  return out;
}

}  // namespace penstock::testing
