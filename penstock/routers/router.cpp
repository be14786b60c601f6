#include "penstock/routers/router.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <string_view>

#include "penstock/base/error.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/profile/profile.h"
#include "penstock/routers/registry.h"

namespace penstock {

Router::Router(const ResolvedRouter& config, const RouterShape& shape,
               std::vector<std::shared_ptr<Balancer>> balancers)
    : scorer_name_(config.scorer),
      balancer_names_(config.balancers),
      balancers_(std::move(balancers)),
      traits_(config.traits),
      layer_(shape.layer) {
  PENSTOCK_ASSERT(!config.dense(), "a dense model has no router");
  PENSTOCK_CHECK(shape.d_model > 0 && shape.experts > 0,
                 "a router needs d_model and experts > 0, not ", shape.d_model, " and ",
                 shape.experts);
  scorer_ = register_module("scorer", make_scorer(config, shape));
  selector_ = make_selector(config, shape);
}

void Router::wrap_scorer(
    const std::function<std::shared_ptr<Scorer>(std::shared_ptr<Scorer>)>& around) {
  scorer_ = replace_module("scorer", around(scorer_));
}

void Router::initialize(double std, const InitialDraws& draws) {
  scorer_->initialize(std, draws.of("scorer"));
  start_balancers();
}

void Router::start_balancers() {
  if (!traits_.needs_matrix) return;
  const torch::NoGradGuard no_grad;
  for (const auto& balancer : balancers_) balancer->start(layer_, scorer_->fold());
}

at::Tensor Router::choice_bias(bool training) const {
  at::Tensor sum;
  for (const auto& balancer : balancers_) {
    const at::Tensor bias =
        training ? balancer->choice_bias(layer_) : balancer->evaluation_bias(layer_);
    if (bias.defined()) sum = sum.defined() ? sum + bias : bias;
  }
  return sum;
}

at::Tensor Router::thresholds() const {
  for (const auto& balancer : balancers_)
    if (const at::Tensor found = balancer->thresholds(layer_); found.defined()) return found;
  return {};
}

RoutingResult Router::route(const at::Tensor& hidden, const RoutingContext& context) {
  PENSTOCK_CHECK(hidden.dim() == 2, "a router takes hidden [T, d], not ", hidden.sizes());
  PENSTOCK_CHECK(context.k == 0 || (traits_.takes_highest && context.k >= 1),
                 "this router has no k to set to ", context.k,
                 ": its tokens do not ask for the experts of their k highest logits");
  PENSTOCK_CHECK(context.logit_shift == 0 || traits_.gates == GateForm::relu,
                 "this router's logits cannot be shifted by ", context.logit_shift,
                 ": their signs alone do not switch experts on");
  // A rounding of the logits would change which expert computes a token.
  const ops::PrecisionScope exact(ops::ProductPrecision::fp32);
  RoutingResult result{.hidden = hidden};
  result.scores = scorer_->score(selector_->rows(hidden, context), context);
  if (traits_.biases_choice) result.scores.choice_bias = choice_bias(context.training);
  if (traits_.keeps_thresholds && !context.training) result.scores.thresholds = thresholds();
  PENSTOCK_CHECK(context.k == 0 || context.k <= result.scores.logits.size(1), "k = ", context.k,
                 " of ", result.scores.logits.size(1), " experts");
  {
    const ops::ProfileScope scope("router select");
    result.plan = selector_->select(result.scores, context);
  }
  result.plan.k = selector_->nominal_k(context);
  if (!result.plan.merges()) result.statistics["expert_tokens"] = expert_counts(result.plan);
  if (traits_.drops)
    result.statistics["overflow"] =
        torch::tensor(static_cast<double>(result.plan.overflow) /
                      static_cast<double>(std::max<std::int64_t>(1, result.plan.tokens)));
  // Losses exist only for the optimizer. Evaluation reports pure cross-entropy.
  if (context.training) add_losses(result, context);
  return result;
}

void Router::add_losses(RoutingResult& result, const RoutingContext& context) {
  const ops::ProfileScope scope("router balance");
  const auto add = [&](const std::string& part, const at::Tensor& loss) {
    if (!loss.defined()) return;
    result.loss = result.loss.defined() ? result.loss + loss : loss;
    result.loss_terms[part] = loss;
  };
  RoutingContext here = context;
  here.layer = layer_;
  add(scorer_name_, result.scores.penalty);
  for (std::size_t i = 0; i < balancers_.size(); ++i) {
    BalancerOutput output = balancers_[i]->balance(result.scores, result.plan, here);
    add(balancer_names_[i], output.loss);
    result.statistics.merge(output.statistics);
  }
}

std::shared_ptr<Scorer> make_scorer(const ResolvedRouter& router, const RouterShape& shape) {
  try {
    return scorer_registry().at(router.scorer).make(shape, router.options.at(router.scorer));
  } catch (const c10::Error& error) {
    if (std::string_view(error.what()).find("allocate") == std::string_view::npos) throw;
    fail("model.router.", router.scorer,
         ": the parameters of this scorer, under these options and ", shape.experts,
         " experts, do not fit into memory; make them smaller");
  }
}

std::shared_ptr<Selector> make_selector(const ResolvedRouter& router, const RouterShape& shape) {
  return selector_registry().at(router.selector).make(shape, router.options.at(router.selector));
}

std::vector<std::shared_ptr<Balancer>> make_balancers(const ResolvedRouter& router,
                                                      const RouterShape& shape) {
  std::vector<std::shared_ptr<Balancer>> balancers;
  for (const auto& name : router.balancers)
    balancers.push_back(balancer_registry().at(name).make(shape, router.options.at(name)));
  return balancers;
}

}  // namespace penstock
