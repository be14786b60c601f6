// The doctor's look at learning: one training pass of each MoE layer by itself, so that the
// gradients and moments of one layer are all that memory has to hold.
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include "penstock/convert/doctor.h"
#include "penstock/layers/moe.h"
#include "penstock/optim/adamw.h"

namespace penstock::doctor {
namespace {

/// What one layer is given, and where.
struct LayerInput {
  at::Tensor hidden;     // [T, d]
  at::Tensor token_ids;  // [T]
};

struct Findings {
  std::int64_t without_gradient = 0, without_state = 0, experts = 0;
  std::int64_t silent_routers = 0;
};

bool moved(const at::Tensor& tensor) {
  return tensor.defined() && tensor.count_nonzero().item<std::int64_t>() > 0;
}

/// Forward and backward of one layer against a random direction, one step of the optimizer at no
/// learning rate, and what came of it.
void look_at(MoeLayer& layer, const LayerInput& input, bool trained_router, Findings& findings) {
  RoutingContext context{.total_steps = 1, .training = true};
  context.token_ids = input.token_ids;
  context.sequence_length = input.hidden.size(0);
  context.generator = at::detail::createCPUGenerator(1);
  AdamW optimizer(layer, {.weight_decay = 0});
  const MoeOutput out = layer.forward(input.hidden.detach().clone(), context);
  const at::Tensor direction = at::randn(out.y.sizes(), at::detail::createCPUGenerator(2),
                                         out.y.options().requires_grad(false));
  at::Tensor objective = (out.y * direction).sum();
  if (out.routing.loss.defined()) objective = objective + out.routing.loss;
  if (objective.requires_grad()) objective.backward();
  optimizer.step(0, optimizer.gradient_norm());
  const auto state = optimizer.state();
  const at::Tensor counts = out.routing.plan.merges()
                                ? at::ones({out.routing.plan.experts}, at::kLong)
                                : expert_counts(out.routing.plan);
  for (const auto& item : layer.named_parameters()) {
    const at::Tensor& gradient = item.value().grad();
    if (item.key().starts_with("experts.")) {
      const auto moments = state.find("m." + item.key());
      for (std::int64_t e = 0; e < counts.size(0); ++e) {
        ++findings.experts;
        if (counts[e].item<std::int64_t>() == 0) continue;  // had no token: said elsewhere
        findings.without_gradient += !(gradient.defined() && moved(gradient[e]));
        findings.without_state += moments == state.end() || !moved(moments->second[e]);
      }
    }
  }
  bool router_moves = false;
  for (const auto& item : layer.router().scorer().named_parameters())
    router_moves = router_moves || moved(item.value().grad());
  findings.silent_routers += trained_router && !router_moves;
  for (const at::Tensor& parameter : layer.parameters()) parameter.mutable_grad() = at::Tensor();
}

}  // namespace

void check_learning(LanguageModel& model, const at::Tensor& windows, Diagnosis& diagnosis) {
  const at::Tensor tokens = windows.slice(0, 0, 1);  // [1, L]
  std::vector<LayerInput> inputs;
  {
    const torch::NoGradGuard no_grad;
    model.forward({.tokens = tokens}, {}, [&](std::int64_t, const RoutingResult& result) {
      inputs.push_back({result.hidden.clone(), tokens.reshape({-1})});
    });
  }
  const ResolvedRouter router = resolve(model.config().router);
  Findings findings;
  std::size_t index = 0;
  for (const auto& module : model.modules(/*include_self=*/false))
    if (auto* const layer = dynamic_cast<MoeLayer*>(module.get()))
      look_at(*layer, inputs.at(index++), router.traits.trainable, findings);
  if (findings.without_gradient == 0 && findings.without_state == 0)
    diagnosis.add("experts learn", CheckState::ok,
                  "every expert with a token gets gradients and has the optimizer's moments");
  else
    diagnosis.add("experts learn", CheckState::fault,
                  fmt::format("of {} matrices {} get no gradient and {} have no moments",
                              findings.experts, findings.without_gradient, findings.without_state),
                  "weights are frozen or zero, or their gates are: make the model again");
  if (findings.silent_routers == 0)
    diagnosis.add("routers learn", CheckState::ok,
                  router.traits.trainable ? "every router gets gradients"
                                          : "the routers have nothing to train");
  else
    diagnosis.add("routers learn", CheckState::fault,
                  fmt::format("{} routers get no gradient", findings.silent_routers),
                  "keys or query maps that are zero cannot move: make the model again");
}

}  // namespace penstock::doctor
