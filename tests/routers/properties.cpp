#include "tests/routers/properties.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"

namespace penstock::testing {
namespace {

constexpr double kEqual = 1e-12;

/// Each token's weights on the experts, for every kind of plan. [T, E]
at::Tensor weights_of(Combination& parts, const Input& input, std::uint64_t seed = 7,
                      bool training = true) {
  return dense_weights(parts.run(input, seed, training).routing.plan);
}

}  // namespace

std::string reads_no_statistics(Combination& parts) {
  const Input input = parts.random_input(5);
  parts.run(input);  // the first pass of a step may read state and cache it
  thread_local std::int64_t reads;
  reads = 0;
  const auto count = [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
    reads += std::string_view(f.name()) == "aten::_local_scalar_dense";
    return nullptr;
  };
  const auto observer = at::addThreadLocalCallback(
      at::RecordFunctionCallback(count).scopes({at::RecordScope::FUNCTION}));
  parts.run(input);
  at::removeCallback(observer);
  return reads <= 1 ? "" : std::to_string(reads) + " numbers were read";
}

std::string chooses_as_traits_say(Combination& parts, const RouterTraits& traits) {
  const Output out = parts.run(parts.random_input(3));
  const at::Tensor& logits = out.routing.scores.logits;
  const std::int64_t tokens = parts.size().tokens(), experts = parts.size().experts;
  if (logits.defined() && logits.size(0) * traits.segment_length != tokens)
    return std::to_string(logits.size(0)) + " rows are scored";
  if (!traits.takes_highest) return "";
  const std::int64_t most = traits.most_k > 0 ? traits.most_k : experts;
  const auto selector = make_selector(parts.resolved(), {.experts = experts, .k = parts.size().k});
  for (std::int64_t k = 1; k <= experts; ++k) {
    bool taken = true;
    try {
      selector->select({.logits = at::zeros({2, experts})}, {.k = k});
    } catch (const Error&) {
      taken = false;
    }
    if (taken != (k <= most)) return "k = " + std::to_string(k) + (taken ? " taken" : " refused");
  }
  return "";
}

std::string plan_is_valid(const Plan& plan) {
  if (plan.merges()) {
    if (plan.merge_weights.size(0) * plan.segment_length != plan.tokens)
      return "segments do not cover the tokens";
    return plan.merge_weights.isfinite().all().item<bool>() ? "" : "a blend is not finite";
  }
  const std::int64_t count = plan.assignments();
  if (plan.expert.numel() != count || plan.weight.numel() != count ||
      plan.by_token.numel() != count)
    return "lengths differ";
  if (!plan.weight.isfinite().all().item<bool>()) return "a weight is not finite";
  if (plan.offsets.numel() != plan.experts + 1 || plan.token_offsets.numel() != plan.tokens + 1)
    return "offsets have a wrong length";
  const auto* token = plan.token.data_ptr<std::int64_t>();
  const auto* expert = plan.expert.data_ptr<std::int64_t>();
  const auto* offsets = plan.offsets.data_ptr<std::int64_t>();
  const auto* by_token = plan.by_token.data_ptr<std::int64_t>();
  const auto* token_offsets = plan.token_offsets.data_ptr<std::int64_t>();
  if (offsets[0] != 0 || offsets[plan.experts] != count)
    return "offsets do not span the assignments";
  if (token_offsets[0] != 0 || token_offsets[plan.tokens] != count)
    return "token offsets do not span";
  for (std::int64_t e = 0; e < plan.experts; ++e)
    for (std::int64_t a = offsets[e]; a < offsets[e + 1]; ++a) {
      if (expert[a] != e) return "an assignment lies outside its expert's range";
      if (token[a] < 0 || token[a] >= plan.tokens) return "a token is out of range";
      if (a > offsets[e] && token[a] <= token[a - 1]) return "tokens of an expert do not ascend";
    }
  for (std::int64_t t = 0; t < plan.tokens; ++t)
    for (std::int64_t i = token_offsets[t]; i < token_offsets[t + 1]; ++i) {
      if (by_token[i] < 0 || by_token[i] >= count || token[by_token[i]] != t)
        return "by_token lists an assignment of another token";
      if (i > token_offsets[t] && by_token[i] <= by_token[i - 1])
        return "by_token is not in expert order";
    }
  return {};
}

std::string seeds_decide(Combination& parts, const RouterTraits& traits) {
  const Input input = parts.random_input(1);
  const at::Tensor first = weights_of(parts, input, 7);
  if (!first.equal(weights_of(parts, input, 7))) return "the same seed gave another plan";
  bool same = true;  // two seeds can draw the same expert, so several are tried
  for (std::uint64_t seed = 8; seed < 16; ++seed)
    same = same && first.equal(weights_of(parts, input, seed));
  if (same && traits.stochastic) return "a stochastic router ignored the seed";
  if (!same && !traits.stochastic) return "a router that is not stochastic followed the seed";
  return {};
}

std::string permutes(Combination& parts, const RouterTraits& traits) {
  const Input input = parts.random_input(2);
  const at::Tensor order = at::randperm(parts.size().tokens(), at::detail::createCPUGenerator(3),
                                        at::TensorOptions().dtype(at::kLong));
  const Input permuted{input.hidden.index_select(0, order), input.token_ids.index_select(0, order)};
  const double moved =
      farthest(weights_of(parts, input).index_select(0, order), weights_of(parts, permuted));
  if (moved > kEqual && !traits.order_matters)
    return concat("permuting tokens changed weights by ", moved);
  if (moved <= kEqual && traits.order_matters) return "order_matters is set, and order does not";
  return {};
}

std::string respects_time(Combination& parts, const RouterTraits& traits) {
  double leak = 0;
  // A router that is not causal need not leak for every input, so several inputs are tried.
  for (std::uint64_t seed = 4; seed == 4 || (!traits.causal && leak <= kEqual && seed < 40);
       ++seed) {
    const Input input = parts.random_input(seed), other = parts.random_input(seed + 1000);
    const auto weights = [&](const Input& of) { return weights_of(parts, of, 7, false); };
    const at::Tensor before = weights(input);
    for (std::int64_t now = 1; now < parts.size().tokens(); ++now) {
      const auto spliced = [&](const at::Tensor& early, const at::Tensor& late) {
        return at::cat({early.slice(0, 0, now), late.slice(0, now)});
      };
      const Input changed{spliced(input.hidden, other.hidden),
                          spliced(input.token_ids, other.token_ids)};
      leak = std::max(leak, farthest(before.slice(0, 0, now), weights(changed).slice(0, 0, now)));
    }
  }
  if (leak > kEqual && traits.causal)
    return concat("later tokens changed earlier weights by ", leak);
  if (leak <= kEqual && !traits.causal)
    return "no later token changed an earlier plan, yet not causal";
  return {};
}

std::string accepts_no_tokens(Combination& parts) {
  const Input none{at::zeros({0, parts.size().width}, at::kDouble).requires_grad_(),
                   at::zeros({0}, at::kLong)};
  const Output out = parts.run(none);
  if (out.y.size(0) != 0 || out.y.size(1) != parts.size().width) return "the output is not [0, d]";
  const std::string invalid = plan_is_valid(out.routing.plan);
  if (!invalid.empty()) return invalid;
  at::Tensor objective = out.y.sum();
  if (out.routing.loss.defined()) objective = objective + out.routing.loss;
  if (objective.item<double>() != 0) return "no tokens, but a loss";
  if (objective.requires_grad()) objective.backward();
  for (const auto& module : parts.modules())
    for (const at::Tensor& parameter : module->parameters())
      if (parameter.grad().defined() && parameter.grad().abs().max().item<double>() != 0)
        return "no tokens, but a gradient";
  return {};
}

std::string accepts_one_busy_expert(Combination& parts, const RouterTraits& traits) {
  // Repeat one token in every place, and try tokens until one expert gets it alone. Odd seeds run
  // outside training, where scorers add no noise; even seeds run in training, where THOR draws one
  // expert for all tokens.
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const bool training = seed % 2 == 0;
    Input input = parts.random_input(seed);
    input.hidden = input.hidden[0].expand_as(input.hidden).contiguous();
    input.token_ids.fill_(input.token_ids[0]);
    const Output out = parts.run(input, 7, training);
    if (const std::string invalid = plan_is_valid(out.routing.plan); !invalid.empty())
      return invalid;
    if (!out.y.isfinite().all().item<bool>()) return "the output is not finite";
    if (traits.merges) return {};
    const at::Tensor counts = expert_counts(out.routing.plan);
    if (traits.even_loads)
      return counts.eq(counts[0]).all().item<bool>() ? "" : concat("uneven loads ", counts);
    if (counts.count_nonzero().item<std::int64_t>() != 1) continue;
    const std::int64_t busy = counts.argmax().item<std::int64_t>(),
                       load = counts[busy].item<std::int64_t>();
    if ((load < parts.size().tokens()) != traits.drops)
      return concat("loads ", counts,
                    traits.drops ? " although experts are capped"
                                 : " where one expert was due to all tokens");
    out.y.sum().backward();
    const at::Tensor grad = parts.experts().gate_up().grad();
    if (!grad.defined()) return "idle experts have no gradient at all";
    for (std::int64_t e = 0; e < parts.size().experts; ++e) {
      const bool moved = grad[e].abs().max().item<double>() > 0;
      if (moved != (e == busy))
        return concat("expert ", e, moved ? " is idle and moved" : " got no gradient");
    }
    return {};
  }
  return "no token of 200 went to one expert";
}

std::string folds(Combination& parts, const RouterTraits& traits) {
  const Input input = parts.random_input(14);
  FoldedScorer router;
  try {
    router = parts.router().scorer().fold();
  } catch (const AssertionError&) {
    return traits.foldable ? "does not fold" : "";
  }
  if (!traits.foldable) return "folds, yet the traits say not";
  torch::NoGradGuard no_grad;
  RoutingContext context;
  context.sequence_length = parts.size().sequence_length;
  const at::Tensor folded =
      ops::linear(input.hidden, router.weight,
                  router.bias.defined() ? std::optional(router.bias) : std::nullopt);
  const double off = farthest(folded, parts.router().scorer().score(input.hidden, context).logits);
  return off <= kEqual ? "" : concat("the folded logits are off by ", off);
}

std::string gradients_agree(Combination& parts, const RouterTraits& traits) {
  Input input = parts.random_input(9);
  input.hidden.requires_grad_();
  const at::Generator draws = at::detail::createCPUGenerator(10);
  const auto random_like = [&](const at::Tensor& t) {
    return at::randn(t.sizes(), draws, at::TensorOptions().dtype(at::kDouble));
  };
  at::Tensor probe = random_like(input.hidden);
  // The first segment's blend passes no gradient: leave its outputs out of the objective.
  if (traits.merges)
    probe.view({parts.size().sequences, parts.size().sequence_length, -1}).slice(1, 0, 4).zero_();
  const auto objective = [&] {
    const Output out = parts.run(input);
    at::Tensor sum = (out.y * probe).sum();
    return out.routing.loss.defined() ? sum + out.routing.loss : sum;
  };
  objective().backward();
  const auto value = [&] {
    torch::NoGradGuard no_grad;
    return objective().item<double>();
  };
  const auto check = [&](const std::string& name, const at::Tensor& leaf) -> std::string {
    for (int repeat = 0; repeat < 2; ++repeat) {
      const double step = 1e-6;
      const at::Tensor kept = leaf.detach().clone(), direction = random_like(leaf);
      const double analytic =
          leaf.grad().defined() ? (leaf.grad() * direction).sum().item<double>() : 0;
      torch::NoGradGuard no_grad;
      at::Tensor data = leaf.detach();
      data.copy_(kept + step * direction);
      const double above = value();
      data.copy_(kept - step * direction);
      const double below = value();
      data.copy_(kept);
      const double numeric = (above - below) / (2 * step);
      if (!(std::abs(analytic - numeric) <= 1e-6 * std::max(1.0, std::abs(numeric))))
        return concat(name, ": autograd ", analytic, ", numeric ", numeric);
    }
    return {};
  };
  const std::string of_hidden = check("hidden", input.hidden);
  if (traits.estimates_gradient && of_hidden.empty()) return "its estimate is the derivative";
  if (!traits.estimates_gradient && !of_hidden.empty()) return of_hidden;
  for (const auto& module :
       {std::static_pointer_cast<torch::nn::Module>(parts.modules()[0]), parts.modules()[1]})
    for (const auto& parameter : module->named_parameters()) {
      // Estimated, like the input's.
      if (traits.estimates_gradient && module == parts.modules()[0]) continue;
      if (!parameter.value().requires_grad()) continue;
      if (auto wrong = check(parameter.key(), parameter.value()); !wrong.empty()) return wrong;
    }
  bool trained = false;
  for (const at::Tensor& parameter : parts.router().parameters())
    trained |= parameter.grad().defined() && parameter.grad().abs().max().item<double>() > 0;
  if (trained != traits.trainable)
    return trained ? "trained, yet the traits say not" : "never trained";
  return {};
}

std::string survives_saving(Combination& parts) {
  for (const auto& balancer : parts.balancers())
    balancer->after_step(uneven_step(parts.size().experts));
  Combination other = parts.made_anew();
  other.router().scorer().initialize(0.3, InitialDraws(77));
  other.experts().initialize(0.3, 0.3, InitialDraws(78));
  for (std::size_t i = 0; i < parts.modules().size(); ++i) {
    std::stringstream file;
    torch::serialize::OutputArchive out;
    parts.modules()[i]->save(out);
    out.save_to(file);
    torch::serialize::InputArchive in;
    in.load_from(file);
    other.modules()[i]->load(in);
  }
  const Input input = parts.random_input(12);
  for (const bool training : {true, false}) {
    const Output a = parts.run(input, 7, training), b = other.run(input, 7, training);
    if (!a.y.equal(b.y)) return concat("another output after loading, training ", training);
    if (a.routing.loss.defined() && !a.routing.loss.equal(b.routing.loss))
      return "another loss after loading";
  }
  return {};
}

}  // namespace penstock::testing
