#include "penstock/infer/token_routing.h"

#include <ATen/ATen.h>

#include <utility>

namespace penstock {

RoutingOfRows::RoutingOfRows(std::vector<Row> rows, bool scored)
    : rows_(std::move(rows)), scored_(scored), routing_(rows_.size()) {}

RoutingTap RoutingOfRows::tap() {
  if (rows_.empty()) return {};
  return [this](std::int64_t, const RoutingResult& result) {
    for (TokenRouting& layers : routing_) layers.emplace_back();
    if (result.plan.merges()) return;
    add_experts(result.plan);
    const at::Tensor& logits = result.scores.logits;
    if (scored_ && logits.defined() && logits.size(0) == result.plan.tokens) add_logits(logits);
  };
}

void RoutingOfRows::add_logits(const at::Tensor& logits) {
  const std::int64_t last = logits.size(0) - 1;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i].logits) continue;
    const at::Tensor row = logits[last - rows_[i].behind].to(at::kCPU, at::kFloat).contiguous();
    routing_[i].back().logits.assign(row.data_ptr<float>(), row.data_ptr<float>() + row.numel());
  }
}

void RoutingOfRows::add_experts(const Plan& plan) {
  const auto on_cpu = [](const at::Tensor& x, at::ScalarType type) {
    return x.to(at::kCPU, type).contiguous();
  };
  const at::Tensor weight = on_cpu(plan.weight, at::kFloat),
                   expert = on_cpu(plan.expert, at::kLong),
                   by_token = on_cpu(plan.by_token, at::kLong),
                   offsets = on_cpu(plan.token_offsets, at::kLong);
  const auto* first = offsets.data_ptr<std::int64_t>();
  const auto* assignments = by_token.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::int64_t row = plan.tokens - 1 - rows_[i].behind;
    for (std::int64_t n = first[row]; n < first[row + 1]; ++n)
      routing_[i].back().experts.push_back(
          {.expert = expert.data_ptr<std::int64_t>()[assignments[n]],
           .weight = weight.data_ptr<float>()[assignments[n]]});
  }
}

}  // namespace penstock
