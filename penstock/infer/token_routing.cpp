#include "penstock/infer/token_routing.h"

#include <ATen/ATen.h>

#include <utility>

namespace penstock {

RoutingOfRows::RoutingOfRows(std::vector<std::int64_t> rows)
    : rows_(std::move(rows)), routing_(rows_.size()) {}

RoutingTap RoutingOfRows::tap() {
  if (rows_.empty()) return {};
  return [this](std::int64_t, const RoutingResult& result) { add(result.plan); };
}

void RoutingOfRows::add(const Plan& plan) {
  for (TokenRouting& layers : routing_) layers.emplace_back();
  if (plan.merges()) return;
  const auto on_cpu = [](const at::Tensor& x, at::ScalarType type) {
    return x.to(at::kCPU, type).contiguous();
  };
  const at::Tensor weight = on_cpu(plan.weight, at::kFloat),
                   expert = on_cpu(plan.expert, at::kLong),
                   by_token = on_cpu(plan.by_token, at::kLong),
                   offsets = on_cpu(plan.token_offsets, at::kLong);
  const auto* first = offsets.data_ptr<std::int64_t>();
  const auto* assignments = by_token.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < rows_.size(); ++i)
    for (std::int64_t n = first[rows_[i]]; n < first[rows_[i] + 1]; ++n)
      routing_[i].back().push_back({.expert = expert.data_ptr<std::int64_t>()[assignments[n]],
                                    .weight = weight.data_ptr<float>()[assignments[n]]});
}

}  // namespace penstock
