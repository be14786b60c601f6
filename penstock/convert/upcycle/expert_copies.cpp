#include "penstock/convert/upcycle/expert_copies.h"

#include <torch/types.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "penstock/base/error.h"

namespace penstock {
namespace {

constexpr std::string_view kExperts = ".mlp.experts.", kShared = ".mlp.shared_expert.";

/// Which gates sum to one: those of the chosen experts (true) or those of all experts (false).
/// nullopt: the gates' sum differs from token to token.
std::optional<bool> gates_sum_to_one(const ModelConfig& config) {
  const RouterTraits traits = config.traits();
  if (traits.merges) return std::nullopt;
  if (traits.unit_gates) return true;
  if (traits.gates == GateForm::softmax_over_all) return false;
  return std::nullopt;
}

double part_factor(const std::string& name, double a, ShardScale scale) {
  if (scale == ShardScale::published) return std::cbrt(a);
  if (scale == ShardScale::none || name.ends_with(".gate_proj.weight")) return 1;
  return std::sqrt(a);
}

}  // namespace

std::string parent_name(const std::string& name) {
  if (const auto at = name.find(kShared); at != std::string::npos)
    return name.substr(0, at) + ".mlp." + name.substr(at + kShared.size());
  const auto at = name.find(kExperts);
  if (at == std::string::npos) return name;
  return name.substr(0, at) + ".mlp" + name.substr(name.find('.', at + kExperts.size()));
}

std::int64_t expert_of(const std::string& name) {
  const auto at = name.find(kExperts);
  if (at == std::string::npos) return -1;
  std::int64_t expert = -1;
  std::from_chars(name.data() + at + kExperts.size(), name.data() + name.size(), expert);
  return expert;
}

double shard_scale(const ModelConfig& config) {
  if (config.moe.granularity == 1) return 1;
  const std::optional<bool> sum_to_one = gates_sum_to_one(config);
  if (!sum_to_one) return 1;
  const auto g = static_cast<double>(config.moe.granularity);
  if (*sum_to_one) return g;
  return static_cast<double>(config.moe.experts) * g * g / config.active_experts();
}

at::Tensor expert_tensor(const std::string& name, const at::Tensor& parent,
                         const ModelConfig& config, ShardScale scale) {
  const std::int64_t expert = expert_of(name);
  PENSTOCK_ASSERT(expert >= 0, name, " is no expert's");
  if (config.moe.granularity == 1) return parent;
  const std::int64_t axis = name.ends_with(".down_proj.weight") ? 1 : 0;
  const std::int64_t shard = expert / config.moe.experts, width = config.expert_width();
  const at::Tensor part = parent.narrow(axis, shard * width, width);
  const double factor = part_factor(name, shard_scale(config), scale);
  return factor == 1 ? part.contiguous() : part.to(at::kFloat) * factor;
}

}  // namespace penstock
