#include "penstock/analysis/token_experts.h"

#include <torch/types.h>

#include <algorithm>

#include "penstock/analysis/measures.h"
#include "penstock/base/error.h"
#include "penstock/data/batches.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/models/evaluation_mode.h"

namespace penstock::analysis {
namespace {

constexpr std::int64_t kBatchTokens = 4096;  // of a forward pass

/// Adds one layer's assignments to the sums of the tokens that were read.
void add_plan(const Plan& plan, const std::vector<std::int64_t>& ids, double share, bool told_apart,
              TokenExperts& out) {
  const at::Tensor token = plan.token.to(at::kCPU).contiguous(),
                   expert = plan.expert.to(at::kCPU).contiguous();
  const auto* tokens = token.data_ptr<std::int64_t>();
  const auto* experts = expert.data_ptr<std::int64_t>();
  for (std::int64_t a = 0; a < plan.assignments(); ++a) {
    const auto id = static_cast<std::size_t>(ids[static_cast<std::size_t>(tokens[a])]);
    out.active[id] += share;
    if (told_apart) out.by_expert[static_cast<std::size_t>(experts[a])][id] += 1;
  }
}

}  // namespace

TokenExperts count_token_experts(LanguageModel& model, const Corpus& corpus,
                                 const TokenExpertsOptions& options) {
  const ModelConfig& config = model.config();
  const Refusals refused = refusals(config);
  PENSTOCK_CHECK(refused.load.empty(), refused.load);
  const std::int64_t layers = config.moe_layers(), length = options.sequence_length > 0
                                                                ? options.sequence_length
                                                                : config.context;
  PENSTOCK_CHECK(options.moe_layer < layers, "layer ", options.moe_layer, " of ", layers,
                 " layers with experts; they count from 0");
  const EvaluationMode measuring(model);
  const EvaluationWindows windows(
      corpus, options.split,
      {.sequence_length = length,
       .batch_sequences = std::max<std::int64_t>(1, kBatchTokens / length),
       .max_tokens = options.max_tokens});
  const auto vocab = static_cast<std::size_t>(config.vocab);
  TokenExperts out{.moe_layer = options.moe_layer >= 0 ? options.moe_layer : (layers - 1) / 2,
                   .count = std::vector<double>(vocab),
                   .active = std::vector<double>(vocab),
                   .by_expert = std::vector(static_cast<std::size_t>(config.total_experts()),
                                            std::vector<double>(vocab))};
  const at::Device device = model.parameters().front().device();
  for (std::int64_t index = 0; index < windows.batches(); ++index) {
    const Batch batch = windows.batch(index);
    ModelInput input = to_tensors(batch, device).input;
    input.memory_length = 0;
    model.forward(input, {}, [&](std::int64_t layer, const RoutingResult& result) {
      add_plan(result.plan, batch.inputs, 1 / static_cast<double>(layers), layer == out.moe_layer,
               out);
    });
    for (const std::int64_t id : batch.inputs) out.count[static_cast<std::size_t>(id)] += 1;
    out.tokens += std::ssize(batch.inputs);
    if (options.progress)
      options.progress(static_cast<double>(index + 1) / static_cast<double>(windows.batches()));
  }
  return out;
}

}  // namespace penstock::analysis
