// The doctor's check of learning. Each MoE layer has a separate training pass, so that memory holds
// the gradients and moments of one layer only.
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "penstock/doctor/doctor.h"
#include "penstock/layers/moe.h"
#include "penstock/models/evaluation_mode.h"
#include "penstock/train/step/layer_step.h"

namespace penstock::doctor {
namespace {

/// The input of one layer.
struct LayerInput {
  at::Tensor hidden;     // [T, d]
  at::Tensor token_ids;  // [T]
};

struct Findings {
  std::int64_t without_gradient = 0, without_state = 0, matrices = 0;
  std::int64_t experts = 0, seen = 0;
  std::int64_t silent_routers = 0;
  std::string failure;  // of the first layer whose gradient is not finite
};

bool moved(const at::Tensor& tensor) {
  return tensor.defined() && tensor.count_nonzero().item<std::int64_t>() > 0;
}

/// The result of one pass of a layer.
struct Pass {
  std::vector<bool> used;                   // by expert: whether some token uses it
  std::map<std::string, at::Tensor> state;  // the optimizer's
  std::string failure;                      // why there was no update; empty: there was
};

/// By expert: whether some token's gate for it is large enough for a gradient. Sharp routers give
/// gates of 1e-30, and gradients through them underflow to 0 in f32.
std::vector<bool> used_experts(const Plan& plan) {
  constexpr double kLeastGate = 1e-12;
  std::vector<bool> out(static_cast<std::size_t>(plan.experts), plan.merges());
  if (plan.merges()) return out;
  const at::Tensor expert = plan.expert.contiguous(),
                   large = plan.weight.detach().abs().gt(kLeastGate).contiguous();
  for (std::int64_t a = 0; a < plan.assignments(); ++a)
    if (large.data_ptr<bool>()[a])
      out[static_cast<std::size_t>(expert.data_ptr<std::int64_t>()[a])] = true;
  return out;
}

/// Runs one layer forward and backward with a random gradient of the output, and one optimizer step
/// with learning rate 0. The parameters keep their gradients.
/// @param k  0: as configured
Pass train_once(MoeLayer& layer, const LayerInput& input, std::int64_t k) {
  RoutingContext context{.total_steps = 1, .training = true, .k = k};
  context.token_ids = input.token_ids;
  context.sequence_length = input.hidden.size(0);
  context.generator = at::detail::createCPUGenerator(1);
  const at::Tensor direction = at::randn(input.hidden.sizes(), at::detail::createCPUGenerator(2),
                                         input.hidden.options().requires_grad(false));
  LayerStep step(layer, [&](const auto& x, const auto& how) { return layer.forward(x, how); },
                 {.weight_decay = 0});
  const LayerStepOutcome out = step.advance(input.hidden.detach().clone(), direction, context, 0);
  return {.used = used_experts(out.output.routing.plan),
          .state = step.optimizer().state(),
          .failure = out.update.failure};
}

/// Checks the experts that the pass used and that are not `seen` yet. Marks them as seen.
void look_at_experts(MoeLayer& layer, const Pass& pass, std::vector<bool>& seen,
                     Findings& findings) {
  for (std::size_t e = 0; e < seen.size(); ++e) {
    const auto index = static_cast<std::int64_t>(e);
    if (seen[e] || !pass.used[e]) continue;
    seen[e] = true;
    ++findings.seen;
    for (const auto& item : layer.named_parameters()) {
      if (!item.key().starts_with("experts.")) continue;
      const at::Tensor& gradient = item.value().grad();
      const auto moments = pass.state.find("m." + item.key());
      ++findings.matrices;
      findings.without_gradient += !(gradient.defined() && moved(gradient[index]));
      findings.without_state += moments == pass.state.end() || !moved(moments->second[index]);
    }
  }
}

/// Checks one layer in a pass as configured. If some experts got no token there and the router
/// takes any k, checks these experts in a second pass with all experts on.
void look_at(MoeLayer& layer, const LayerInput& input, const RouterTraits& traits,
             Findings& findings) {
  const Pass own = train_once(layer, input, 0);
  if (findings.failure.empty()) findings.failure = own.failure;
  std::vector<bool> seen(own.used.size());
  look_at_experts(layer, own, seen, findings);
  bool router_moves = false;
  for (const auto& item : layer.router().scorer().named_parameters())
    router_moves = router_moves || moved(item.value().grad());
  findings.silent_routers += traits.trainable && !router_moves;
  findings.experts += std::ssize(seen);
  if (traits.takes_highest && std::ranges::count(seen, false) > 0)
    look_at_experts(layer, train_once(layer, input, std::ssize(seen)), seen, findings);
  for (const at::Tensor& parameter : layer.parameters()) parameter.mutable_grad() = at::Tensor();
}

}  // namespace

void check_learning(LanguageModel& model, const at::Tensor& windows, Diagnosis& diagnosis) {
  const at::Tensor tokens = windows.slice(0, 0, 1);  // [1, L]
  std::vector<LayerInput> inputs;
  {
    const EvaluationMode measuring(model);
    model.forward({.tokens = tokens}, {}, [&](std::int64_t, const RoutingResult& result) {
      inputs.push_back({result.hidden.clone(), tokens.reshape({-1})});
    });
  }
  const ResolvedRouter router = resolve(model.config().router);
  Findings findings;
  std::size_t index = 0;
  for (MoeLayer* const layer : model.moe_layers())
    look_at(*layer, inputs.at(index++), router.traits, findings);
  if (!findings.failure.empty())
    diagnosis.add("experts learn", CheckState::fault, findings.failure,
                  "weights or hidden states are so large that a gradient overflows: make the model "
                  "again");
  else if (findings.without_gradient == 0 && findings.without_state == 0)
    diagnosis.add(
        "experts learn", CheckState::ok,
        fmt::format("{} of {} experts weigh in some token; each gets gradients and has the "
                    "optimizer's moments",
                    findings.seen, findings.experts));
  else
    diagnosis.add("experts learn", CheckState::fault,
                  fmt::format("of {} matrices {} get no gradient and {} have no moments",
                              findings.matrices, findings.without_gradient, findings.without_state),
                  "weights are frozen or zero, or their gates are: make the model again");
  if (findings.silent_routers == 0)
    diagnosis.add("routers learn", CheckState::ok,
                  router.traits.trainable ? "every router gets gradients"
                                          : "the routers have nothing to train");
  else if (router.traits.merges)  // a blend of equal experts is the same for any gates
    diagnosis.add("routers learn", CheckState::ok,
                  fmt::format("{} routers get no gradient until their experts differ",
                              findings.silent_routers));
  else
    diagnosis.add("routers learn", CheckState::fault,
                  fmt::format("{} routers get no gradient", findings.silent_routers),
                  "keys or query maps that are zero cannot move: make the model again");
}

}  // namespace penstock::doctor
