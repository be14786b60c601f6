#include "penstock/analysis/flips.h"

#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "penstock/analysis/refusals.h"
#include "penstock/base/error.h"
#include "penstock/data/corpus/batches.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/models/evaluation_mode.h"

namespace penstock::analysis {

at::Tensor active_experts(LanguageModel& model, const Corpus& corpus,
                          const CalibrationOptions& options) {
  const Refusals refused = refusals(model.config());
  PENSTOCK_CHECK(refused.load.empty(), refused.load);
  const EvaluationMode measuring(model);
  const EvaluationWindows windows(
      corpus, options.split,
      {.sequence_length = options.sequence_length,
       .batch_sequences = std::max<std::int64_t>(1, options.tokens / options.sequence_length),
       .max_tokens = options.tokens});
  ModelInput input = to_tensors(windows.batch(0), model.parameters().front().device()).input;
  input.memory_length = 0;
  std::vector<at::Tensor> layers;
  model.forward(input, {}, [&](std::int64_t, const RoutingResult& result) {
    const Plan& plan = result.plan;
    const at::Tensor token = plan.token.to(at::kCPU), expert = plan.expert.to(at::kCPU);
    layers.push_back(at::zeros({plan.tokens, plan.experts}, at::kBool)
                         .index_put({token, expert}, torch::tensor(true)));
  });
  return at::stack(layers);
}

double flip_rate(const at::Tensor& before, const at::Tensor& after) {
  PENSTOCK_ASSERT(before.sizes() == after.sizes());
  return before.ne(after).to(at::kDouble).mean().item<double>();
}

}  // namespace penstock::analysis
