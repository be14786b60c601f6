// The full product of scorers, selectors and sets of balancers. Each combination either has every
// property of properties.h or is refused with a reason.
#include <gtest/gtest.h>

#include <cstdio>

#include "penstock/base/error.h"
#include "penstock/routers/compatible.h"
#include "tests/base/error_of.h"
#include "tests/routers/properties.h"

namespace penstock::testing {
namespace {

using Names = std::vector<std::string>;

/// All subsets of the registered balancers if there are at most 5 balancers. Otherwise the empty
/// set, single balancers and pairs.
std::vector<Names> balancer_sets() {
  const Names all = balancer_registry().names();
  std::vector<Names> sets;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << all.size()); ++bits) {
    Names chosen;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (bits >> i & 1) chosen.push_back(all[i]);
    if (all.size() <= 5 || chosen.size() <= 2) sets.push_back(chosen);
  }
  return sets;
}

/// "linear x topk + load-balance + z-loss"
std::string name_of(const std::string& scorer, const std::string& selector,
                    const Names& balancers) {
  std::string out = scorer + " x " + selector;
  for (const auto& balancer : balancers) out += " + " + balancer;
  return out;
}

void expect_conforming(const std::string& scorer, const std::string& selector,
                       const Names& balancers, const Options& selector_options = {},
                       const Case& size = {}) {
  SCOPED_TRACE(name_of(scorer, selector, balancers));
  const auto fresh_of = [&](const Case& of) {
    return Combination(scorer, selector, balancers, of, selector_options);
  };
  const auto fresh = [&] { return fresh_of(size); };
  const RouterTraits traits = fresh().traits();
  for (const std::uint64_t seed : {1, 2, 3}) {
    Combination parts = fresh();
    EXPECT_EQ(plan_is_valid(parts.run(parts.random_input(seed)).routing.plan), "");
  }
  const auto expect = [&](const char* what, auto&& check) {
    Combination parts = fresh();
    EXPECT_EQ(check(parts), "") << what;
  };
  expect("seeds", [&](Combination& parts) { return seeds_decide(parts, traits); });
  expect("traits", [&](Combination& parts) { return chooses_as_traits_say(parts, traits); });
  expect("permutation", [&](Combination& parts) { return permutes(parts, traits); });
  expect("causality", [&](Combination& parts) { return respects_time(parts, traits); });
  expect("no tokens", [&](Combination& parts) { return accepts_no_tokens(parts); });
  expect("folding", [&](Combination& parts) { return folds(parts, traits); });
  expect("gradients", [&](Combination& parts) { return gradients_agree(parts, traits); });
  expect("save and load", [&](Combination& parts) { return survives_saving(parts); });
  expect("reads", [&](Combination& parts) { return reads_no_statistics(parts); });
  expect("losses", [&](Combination& parts) { return losses_agree(parts); });
  Combination one = fresh_of({.k = 1});
  EXPECT_EQ(accepts_one_busy_expert(one, traits), "");
}

void expect_refused(const std::string& scorer, const std::string& selector, const Names& balancers,
                    const std::string& reason) {
  SCOPED_TRACE(name_of(scorer, selector, balancers));
  expect_error([&] { resolve({.scorer = scorer, .selector = selector, .balancers = balancers}); },
               {reason});
}

TEST(Conformance, FullProduct) {
  std::size_t tested = 0, refused = 0;
  const auto sets = balancer_sets();
  for (const auto& scorer : scorer_registry().names())
    for (const auto& selector : selector_registry().names())
      for (const Names& balancers : sets) {
        const std::string reason = compatible(scorer, selector, balancers);
        if (reason.empty()) {
          expect_conforming(scorer, selector, balancers);
          ++tested;
        } else {
          expect_refused(scorer, selector, balancers, reason);
          ++refused;
        }
      }
  const std::size_t product =
      scorer_registry().names().size() * selector_registry().names().size() * sets.size();
  EXPECT_EQ(tested + refused, product);
  EXPECT_GT(tested, 0U);
  std::printf("conformance: %zu tested + %zu refused = %zu combinations\n", tested, refused,
              product);
  RecordProperty("tested", static_cast<int>(tested));
  RecordProperty("refused", static_cast<int>(refused));
}

/// A selector keeps every property with a non-default option.
TEST(Conformance, CappedRelu) {
  for (const Names& balancers : balancer_sets()) {
    if (!compatible("linear", "relu", balancers).empty()) continue;
    expect_conforming("linear", "relu", balancers, {{"most", std::int64_t{2}}});
  }
}

/// With 4 tokens and 64 experts, some experts are idle.
TEST(Conformance, LeakingRelu) {
  for (const Names& balancers : balancer_sets()) {
    if (!compatible("linear", "relu", balancers).empty()) continue;
    expect_conforming("linear", "relu", balancers,
                      {{"leak", 0.5}, {"leak_tokens", std::int64_t{1}}},
                      {.sequences = 2, .sequence_length = 2, .experts = 64});
  }
}

/// If a scorer's logits can be scaled, the logits of inference are scaled exactly. Otherwise they
/// do not change.
TEST(Conformance, ScaledLogits) {
  const torch::NoGradGuard no_grad;
  int scaled = 0;
  for (const auto& name : scorer_registry().names()) {
    SCOPED_TRACE(name);
    const std::string selector =
        compatible(name, "topk", {}).empty() ? std::string("topk") : std::string("hash");
    Combination parts(name, selector, {});
    const auto logits = [&] {
      return parts.run(parts.random_input(1), 7, /*training=*/false).routing.scores.logits;
    };
    const at::Tensor before = logits();
    const bool scales = parts.router().scorer().scale_logits(2.5);
    const at::Tensor after = logits();
    if (!before.defined() || !before.any().item<bool>()) {  // there are no logits to scale
      EXPECT_FALSE(scales);
      continue;
    }
    const at::Tensor expected = scales ? before * 2.5 : before;
    EXPECT_LT(farthest(after, expected), 1e-12);
    scaled += scales;
  }
  EXPECT_GE(scaled, 7);
}

/// Each token's sum of gates outside training; in a merging plan each segment's sum of weights.
at::Tensor gate_sums(Combination& parts) {
  const Plan plan = parts.run(parts.random_input(1), 7, /*training=*/false).routing.plan;
  if (plan.merges()) return plan.merge_weights.sum(1);
  return at::zeros({plan.tokens}, plan.weight.options()).index_add(0, plan.token, plan.weight);
}

/// Gates sum to one exactly if unit_gates is true, and scale with the logits exactly if the gates
/// are ReLU's.
TEST(Conformance, GatesAreWhatTheTraitsSay) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, entry] : selector_registry().entries()) {
    SCOPED_TRACE(name);
    Combination parts(entry.traits.ignores_logits ? "none" : "linear", name, {});
    const at::Tensor sums = gate_sums(parts);
    const bool ones = parts.traits().drops ? sums.max().sub(1).abs().item<double>() < 1e-12
                                           : sums.sub(1).abs().max().item<double>() < 1e-12;
    EXPECT_EQ(ones, parts.traits().unit_gates) << sums;
    const bool scales = parts.router().scorer().scale_logits(2.5);
    EXPECT_EQ(scales && gate_sums(parts).allclose(sums * 2.5, 1e-12),
              parts.traits().gates == GateForm::relu);
  }
}

/// A top-k selector whose options divide gates by their sum has the trait unit_gates.
TEST(Conformance, OptionsMakeUnitGates) {
  const auto unit = [](const std::string& method, const std::string& part, const std::string& key,
                       ConfigNode::Value value) {
    ConfigNode options;
    options.set(key, std::move(value));
    return resolve({.method = method, .parts = {{part, options}}}).traits.unit_gates;
  };
  EXPECT_TRUE(unit("topk", "topk", "renormalise", true));
  EXPECT_TRUE(unit("topk", "topk", "softmax", std::string("after")));
  EXPECT_FALSE(unit("topk", "topk", "softmax", std::string("before")));
  EXPECT_TRUE(unit("switch", "topk-capacity", "softmax", std::string("after")));
  EXPECT_FALSE(unit("switch", "topk-capacity", "softmax", std::string("before")));
}

/// With a cap, other experts' logits decide about a gate as well, so the trait must not call the
/// gates ReLU's.
TEST(Conformance, ACapIsNoFormOfGates) {
  const auto gates = [](std::int64_t most) {
    return resolve({.method = "remoe", .k = 1, .parts = {{"relu", node({{"most", most}})}}})
        .traits.gates;
  };
  EXPECT_EQ(gates(0), GateForm::relu);
  EXPECT_EQ(gates(2), GateForm::other);
}

/// Every boolean trait that the checks read is reported if it is false.
TEST(Conformance, NoticesFalseTraits) {
  Combination topk("linear", "topk", {});
  const auto lie = [](Combination& parts, bool RouterTraits::*trait) {
    RouterTraits traits = parts.traits();
    traits.*trait = !(traits.*trait);
    return traits;
  };
  EXPECT_NE(seeds_decide(topk, lie(topk, &RouterTraits::stochastic)), "");
  EXPECT_NE(permutes(topk, lie(topk, &RouterTraits::order_matters)), "");
  EXPECT_NE(respects_time(topk, lie(topk, &RouterTraits::causal)), "");
  EXPECT_NE(gradients_agree(topk, lie(topk, &RouterTraits::trainable)), "");
  EXPECT_NE(gradients_agree(topk, lie(topk, &RouterTraits::estimates_gradient)), "");
  Combination mixer("linear", "sparsemixer-v2", {});
  EXPECT_NE(gradients_agree(mixer, lie(mixer, &RouterTraits::estimates_gradient)), "");
  Combination single("linear", "topk", {}, {.k = 1});
  EXPECT_EQ(accepts_one_busy_expert(single, single.traits()), "");
  EXPECT_NE(accepts_one_busy_expert(single, lie(single, &RouterTraits::even_loads)), "");
  EXPECT_NE(accepts_one_busy_expert(single, lie(single, &RouterTraits::drops)), "");
  EXPECT_NE(folds(topk, lie(topk, &RouterTraits::foldable)), "");
  Combination mlp("mlp", "topk", {});
  EXPECT_NE(folds(mlp, lie(mlp, &RouterTraits::foldable)), "");
  Combination random("random", "topk", {});
  EXPECT_NE(gradients_agree(random, lie(random, &RouterTraits::trainable)), "");
  Combination noisy("noisy-linear", "topk", {});
  EXPECT_NE(seeds_decide(noisy, lie(noisy, &RouterTraits::stochastic)), "");
  EXPECT_NE(permutes(noisy, lie(noisy, &RouterTraits::order_matters)), "");
  Combination choice("linear", "expert-choice", {});
  EXPECT_NE(respects_time(choice, lie(choice, &RouterTraits::causal)), "");
  EXPECT_NE(accepts_one_busy_expert(choice, lie(choice, &RouterTraits::even_loads)), "");
  Combination lory("linear", "lory", {});
  EXPECT_NE(permutes(lory, lie(lory, &RouterTraits::order_matters)), "");
  EXPECT_NE(respects_time(lory, lie(lory, &RouterTraits::causal)), "");
  EXPECT_NE(gradients_agree(lory, lie(lory, &RouterTraits::merges)), "");
  Combination hash("none", "hash", {});
  EXPECT_NE(gradients_agree(hash, lie(hash, &RouterTraits::trainable)), "");
}

/// needs_token_ids is true of exactly the selectors that fail without them.
TEST(Conformance, TokenIdsAreNeededWhereTheTraitSaysSo) {
  for (const auto& [name, entry] : selector_registry().entries()) {
    Combination parts(entry.traits.ignores_logits ? "none" : "linear", name, {});
    Input input = parts.random_input(1);
    input.token_ids = at::Tensor();
    if (entry.traits.needs_token_ids)
      EXPECT_THROW(parts.run(input), Error) << name;
    else
      EXPECT_NO_THROW(parts.run(input)) << name;
  }
}

}  // namespace
}  // namespace penstock::testing
