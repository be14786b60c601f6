#include "penstock/finetune/k_points.h"

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/eval/by_k.h"

namespace penstock {

std::int64_t largest_k(const ModelConfig& config) {
  return why_no_k(config).empty() ? most_k(config) : 0;
}

TrainingK training_k(const ModelConfig& config, const FinetuneConfig& finetune) {
  const std::string reason = why_no_k(config);
  const auto check = [&](const char* key, std::int64_t k) {
    PENSTOCK_CHECK(k <= 0 || reason.empty(), key, " = ", k,
                   ": the number of experts per token cannot be set, for ", reason);
    PENSTOCK_CHECK(k <= 0 || takes_k(config, k), key, " = ", k, ": the model takes 1 to ",
                   largest_k(config), " experts per token");
  };
  check("train_k", finetune.train_k);
  check("selection_k", finetune.selection_k);
  if (!reason.empty()) return {};
  TrainingK out{.train = finetune.train_k};
  if (out.train == 0) out.train = largest_k(config);
  if (out.train < 0) out.train = std::llround(config.active_experts());
  out.selection = finetune.selection_k > 0 ? finetune.selection_k : out.train;
  return out;
}

std::vector<std::int64_t> k_points(const ModelConfig& config,
                                   const std::vector<std::int64_t>& wanted, std::int64_t also) {
  std::vector<std::int64_t> out = wanted;
  const std::int64_t largest = largest_k(config);
  if (out.empty() && largest > 0) {
    for (std::int64_t k = 1; k < largest; k *= 2) out.push_back(k);
    out.push_back(largest);
    if (also > 0) out.push_back(also);
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  if (!out.empty()) check_k_values(config, out);
  return out;
}

}  // namespace penstock
