#include "penstock/analysis/routing_trace.h"

#include <torch/types.h>

#include "penstock/analysis/probe.h"
#include "penstock/base/error.h"
#include "penstock/models/evaluation_mode.h"

namespace penstock::analysis {
namespace {

void check_tokens(const ModelConfig& config, const std::vector<std::int64_t>& tokens) {
  PENSTOCK_CHECK(!tokens.empty(), "there are no tokens to trace");
  PENSTOCK_CHECK(config.context == 0 || std::ssize(tokens) <= config.context, std::ssize(tokens),
                 " tokens are more than the model's context of ", config.context,
                 "; trace a part of them");
  for (const std::int64_t id : tokens)
    PENSTOCK_CHECK(id >= 0 && id < config.vocab, "token ", id,
                   " is not in the model's vocabulary of ", config.vocab);
}

}  // namespace

std::map<std::string, at::Tensor> trace_routing(LanguageModel& model,
                                                const std::vector<std::int64_t>& tokens,
                                                const RoutingChoice& choice) {
  const ModelConfig& config = model.config();
  PENSTOCK_CHECK(config.moe_layers() > 0,
                 "a dense model has no routers to trace; upcycle it, or take an MoE");
  check_tokens(config, tokens);
  check_choice(config, choice);
  const bool scored = scores_tokens(config);
  const std::vector<std::int64_t> numbers = config.moe_layer_indices();
  std::map<std::string, at::Tensor> out;
  const at::Tensor ids = torch::tensor(tokens, torch::kInt64);
  out["tokens"] = ids;
  const auto tap = [&](std::int64_t moe_layer, const RoutingResult& result) {
    PENSTOCK_CHECK(!result.plan.merges(), "method '", config.router.method,
                   "' blends its experts by segments: a token has no experts of its own to trace");
    const std::string stem =
        "layers." + std::to_string(numbers[static_cast<std::size_t>(moe_layer)]) + ".";
    const auto take = [](const at::Tensor& x) { return x.to(at::kCPU).contiguous(); };
    out[stem + "router_input"] = take(result.hidden);
    out[stem + "gates"] = take(dense_gates(result.plan));
    const at::Tensor& logits = result.scores.logits;
    if (scored && logits.defined() && logits.size(0) == ids.size(0))
      out[stem + "logits"] = take(logits);
  };
  const EvaluationMode measuring(model);
  const at::Device device = model.parameters().front().device();
  model.forward({.tokens = ids.unsqueeze(0).to(device), .memory_length = 0}, context_of(choice),
                tap);
  return out;
}

}  // namespace penstock::analysis
