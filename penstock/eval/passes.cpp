#include "penstock/eval/passes.h"

#include <torch/types.h>

#include <algorithm>
#include <map>

namespace penstock {

bool reads_across_texts(const ModelConfig& config, bool training) {
  if (config.moe_layers() == 0) return false;
  const RouterTraits traits = config.traits();
  if (training && traits.keeps_thresholds) return true;
  return !traits.causal || traits.order_matters || traits.stochastic || traits.drops;
}

std::vector<std::vector<std::size_t>> groups_of_equal_length(std::span<const std::size_t> lengths,
                                                             std::span<const std::size_t> items,
                                                             std::int64_t most_items,
                                                             std::int64_t most_tokens) {
  std::map<std::size_t, std::vector<std::vector<std::size_t>>> by_length;
  for (const std::size_t item : items) {
    const std::size_t length = lengths[item];
    const auto fitting = std::max<std::int64_t>(1, most_tokens / static_cast<std::int64_t>(length));
    auto& groups = by_length[length];
    if (groups.empty() || std::ssize(groups.back()) == std::min(most_items, fitting))
      groups.emplace_back();
    groups.back().push_back(item);
  }
  std::vector<std::vector<std::size_t>> out;
  for (auto& [length, groups] : by_length)
    for (auto& group : groups) out.push_back(std::move(group));
  return out;
}

std::int64_t whole_segments(const ModelConfig& config, std::int64_t length) {
  if (config.moe_layers() == 0) return length;
  const std::int64_t segment = config.traits().segment_length;
  return (length + segment - 1) / segment * segment;
}

ModelOutput hidden_pass(LanguageModel& model, ModelInput input, std::int64_t whole,
                        const RoutingContext& context, const RoutingTap& tap) {
  const std::int64_t rows = input.tokens.size(0), length = input.tokens.size(1);
  RoutingContext measuring = context;
  measuring.training = false;
  if (model.traits().merges) {
    const std::int64_t missing = whole - length;
    input.tokens = torch::constant_pad_nd(input.tokens, {0, missing});
    if (input.starts) input.starts = torch::constant_pad_nd(*input.starts, {0, missing});
    measuring.unpadded_length = length;
  }
  ModelOutput output = model.forward(input, measuring, tap);
  const std::int64_t width = output.hidden.size(1);
  output.hidden =
      output.hidden.view({rows, -1, width}).narrow(1, 0, length).reshape({rows * length, width});
  return output;
}

ScoredPass score_pass(LanguageModel& model, ModelInput input, const at::Tensor& targets,
                      std::int64_t whole, const RoutingContext& context, const RoutingTap& tap) {
  ModelOutput output = hidden_pass(model, std::move(input), whole, context, tap);
  return {.nats = model.losses(output.hidden, targets).to(at::kCPU, at::kDouble).contiguous(),
          .memory = std::move(output.memory)};
}

}  // namespace penstock
