#include "penstock/layers/moe.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/ops/pointwise.h"
#include "penstock/ops/slice.h"
#include "penstock/routers/routing.h"

namespace penstock {

RouterShape router_shape(const MoeOptions& options) {
  return {.d_model = options.d_model,
          .experts = options.experts,
          .k = options.router.k * options.granularity,
          .granularity = static_cast<std::int64_t>(options.granularity),
          .layer = options.layer,
          .layers = options.layers};
}

void share_scorers(const std::vector<MoeLayer*>& layers) {
  for (MoeLayer* layer : layers) layer->router().scorer().share(layers.front()->router().scorer());
}

std::shared_ptr<MoeLayer::OwnBalancing> MoeLayer::own_balancing(const MoeOptions& options) {
  const ResolvedRouter resolved = resolve(options.router);
  const RouterShape shape = router_shape(options);
  return std::make_shared<OwnBalancing>(OwnBalancing{.shape = shape,
                                                     .names = resolved.balancers,
                                                     .balancers = make_balancers(resolved, shape),
                                                     .group = options.expert_group});
}

MoeLayer::MoeLayer(const MoeOptions& options, std::vector<std::shared_ptr<Balancer>> balancers)
    : MoeLayer(options, std::move(balancers), nullptr) {}

MoeLayer::MoeLayer(const MoeOptions& options) : MoeLayer(options, {}, own_balancing(options)) {
  initialize(InitialDraws::from_default_generator());
  for (std::size_t i = 0; i < own_->balancers.size(); ++i)
    register_module("balancer_" + std::to_string(i), own_->balancers[i]);
}

MoeLayer::MoeLayer(const MoeOptions& options, const MoeLayer& first)
    : MoeLayer(options, {}, first.own_) {
  PENSTOCK_CHECK(own_, "[moe] the balancers of this layer are a model's; give these to the next");
  PENSTOCK_CHECK(
      options.experts == own_->shape.experts && options.layers == own_->shape.layers &&
          resolve(options.router).balancers == own_->names,
      "[moe] layers that share balancers have as many experts, the same `layers` and the "
      "same balancers; make this one with balancers of its own");
  initialize(InitialDraws::from_default_generator());
}

MoeLayer::MoeLayer(const MoeOptions& options, std::vector<std::shared_ptr<Balancer>> balancers,
                   std::shared_ptr<OwnBalancing> own)
    : own_(std::move(own)), options_(options), rows_(options.tensor_group, options.divided_rows) {
  PENSTOCK_CHECK(options.d_model > 0 && options.d_ffn > 0 && options.experts > 0,
                 "[moe] d_model, d_ffn and experts must be positive, got ", options.d_model, ", ",
                 options.d_ffn, ", ", options.experts);
  PENSTOCK_CHECK(options.layer >= 0 && options.layer < options.layers,
                 "[moe] layer = ", options.layer, " of layers = ", options.layers,
                 "; count them from 0");
  const ResolvedRouter resolved = resolve(options.router);
  router_ = register_module(
      "router", std::make_shared<Router>(resolved, router_shape(options),
                                         own_ ? own_->balancers : std::move(balancers)));
  const dist::ProcessGroup& ranks = options.tensor_group;
  PENSTOCK_ASSERT(ranks.size() == 1 || (!options.form.bias && options.form.dropout == 0));
  const auto width = [&](std::int64_t f) {
    return equal_part(f, ranks.rank(), ranks.size()).size();
  };
  PENSTOCK_CHECK(ranks.size() == 1 || !options.whole_experts || !own_,
                 "[moe] whole_experts: balancers of the layer's own would count each token once on "
                 "every rank that has it; give the layer those of a model");
  experts_ = register_module(
      "experts",
      std::make_shared<Experts>(options.experts, options.d_model,
                                options.whole_experts ? options.d_ffn : width(options.d_ffn),
                                options.form, options.expert_group));
  if (options.shared_width > 0)
    shared_expert_ = register_module(
        "shared_expert",
        std::make_shared<FeedForward>(options.d_model, width(options.shared_width)));
  if (options.shared_gate) {
    PENSTOCK_CHECK(shared_expert_, "[moe] shared_gate needs a shared_width above 0");
    shared_expert_gate_ = register_module("shared_expert_gate",
                                          std::make_shared<Projection>(options.d_model, 1, false));
  }
}

void MoeLayer::describe(const MoeOptions& options, const LayerTensors& at) {
  const std::int64_t d = options.d_model;
  Experts::describe(options.experts, d, options.d_ffn, options.form, at.below("experts"));
  if (options.shared_width > 0)
    FeedForward::describe(d, options.shared_width, {}, TensorRole::shared,
                          at.below("shared_expert"));
  if (options.shared_gate)
    Projection::describe("shared_expert_gate", {{"shared_expert_gate", 1, TensorRole::shared}}, d,
                         /*bias=*/false, at);
}

void MoeLayer::initialize(const InitialDraws& draws) {
  const double std = options_.init_std;
  router_->initialize(options_.router.init_std > 0 ? options_.router.init_std : std,
                      draws.of("router"));
  experts_->initialize(std, options_.output_std, draws.of("experts"));
  if (shared_expert_)
    shared_expert_->initialize(std, options_.shared_output_std, draws.of("shared_expert"));
  if (shared_expert_gate_) shared_expert_gate_->initialize(std, draws.of("shared_expert_gate"));
}

at::Tensor MoeLayer::shared(const at::Tensor& inner, const at::Tensor& alike) {
  const at::Tensor y = shared_expert_->outer(inner);
  if (!shared_expert_gate_) return y;
  const at::Tensor gate =
      ops::pointwise_alike(shared_expert_gate_->forward(alike),
                           [](const at::Tensor& z) { return z.sigmoid(); });  // [T, 1]
  return shared_by_ranks(gate, rows_.ranks()) * y;
}

void MoeLayer::set_homes(RoutingContext& context) const {
  const dist::ProcessGroup& group = experts_->group();
  if (group.size() == 1 || context.expert_rank.defined()) return;
  // The ranks of a tensor group have the same tokens, so they count as one rank here.
  const int together = options_.whole_experts ? options_.tensor_group.size() : 1;
  context.rank = group.rank() / together;
  context.expert_rank = at::arange(options_.experts, at::kLong)
                            .div(options_.experts / group.size() * together, "trunc");
}

IndexRange MoeLayer::own_tokens(const Plan& plan) const {
  if (!options_.whole_experts) return {0, plan.tokens};
  const dist::ProcessGroup& ranks = options_.tensor_group;
  const std::int64_t piece = plan.merges() ? plan.segment_length : 1;
  const auto first = [&](int rank) { return plan.tokens / piece * rank / ranks.size() * piece; };
  return {first(ranks.rank()), first(ranks.rank() + 1)};
}

MoeOutput MoeLayer::forward(const at::Tensor& x, const RoutingContext& context,
                            std::optional<std::int64_t> dropout_seed) {
  PENSTOCK_CHECK(x.dim() > 0 && x.size(-1) == options_.d_model, "[moe] x ", x.sizes(),
                 " must be [..., d_model], and the layer's d_model is ", options_.d_model);
  const dist::ProcessGroup& ranks = rows_.ranks();
  const at::Tensor hidden = rows_.enter(x.reshape({-1, x.size(-1)}));  // [T, d]
  const at::Tensor alike = rows_.alike(hidden);
  RoutingContext complete = context;
  if (complete.sequence_length == 0)
    complete.sequence_length = x.dim() > 2 ? x.size(-2) : hidden.size(0);
  set_homes(complete);
  RoutingResult routing = router_->route(alike, complete);
  Plan plan = routing.plan;  // every rank multiplies its part of the outputs by the weights
  if (plan.weight.defined()) plan.weight = shared_by_ranks(plan.weight, ranks);
  if (plan.merges()) plan.merge_weights = shared_by_ranks(plan.merge_weights, ranks);
  const IndexRange tokens = own_tokens(plan);
  at::Tensor own = hidden;
  if (options_.whole_experts) {
    own = own.narrow(0, tokens.first, tokens.size());
    plan = plan_of_tokens(plan, tokens);
  }
  at::Tensor inner, of_all;  // the shared expert's activations and output
  const OverlappedWork shared_expert{.rows_leave = [&] { inner = shared_expert_->inner(hidden); },
                                     .results_return = [&] { of_all = shared(inner, alike); }};
  const bool overlap = shared_expert_ && options_.overlap && experts_->sends_rows(plan);
  at::Tensor y =
      experts_->forward(own, plan, dropout_seed, overlap ? shared_expert : OverlappedWork());
  if (options_.whole_experts)  // 0 for the rows that other ranks compute; leave() sums over ranks
    y = at::constant_pad_nd(y, {0, 0, tokens.first, hidden.size(0) - tokens.last});
  if (shared_expert_ && !overlap) {
    shared_expert.rows_leave();
    shared_expert.results_return();
  }
  if (shared_expert_) y = y + of_all;
  y = rows_.leave(y).view(x.sizes());
  if (context.training && own_) own_->seen.add(options_.layer, routing.plan);
  return {std::move(y), std::move(routing)};
}

void MoeLayer::after_step() {
  if (!own_) return;
  if (own_->group.size() > 1)
    own_->seen.sum_with(
        [&](const at::Tensor& counts) { own_->group.all_reduce(counts, dist::Reduction::sum); },
        own_->shape);
  if (own_->seen.empty()) return;
  const StepStatistics statistics = own_->seen.take();
  for (const auto& balancer : own_->balancers) balancer->after_step(statistics);
}

std::vector<std::shared_ptr<MoeLayer>> make_moe_layers(MoeOptions options) {
  std::vector<std::shared_ptr<MoeLayer>> out;
  std::vector<MoeLayer*> layers;
  for (options.layer = 0; options.layer < options.layers; ++options.layer) {
    out.push_back(out.empty() ? std::make_shared<MoeLayer>(options)
                              : std::make_shared<MoeLayer>(options, *out.front()));
    layers.push_back(out.back().get());
  }
  share_scorers(layers);
  return out;
}

std::set<std::string> router_parameters(const torch::nn::Module& model,
                                        const std::vector<MoeLayer*>& layers) {
  std::set<const void*> of_routers;
  for (MoeLayer* const layer : layers)
    for (const at::Tensor& parameter : layer->router().parameters())
      of_routers.insert(parameter.unsafeGetTensorImpl());
  std::set<std::string> out;
  for (const auto& item : model.named_parameters())
    if (of_routers.contains(item.value().unsafeGetTensorImpl())) out.insert(item.key());
  return out;
}

}  // namespace penstock
