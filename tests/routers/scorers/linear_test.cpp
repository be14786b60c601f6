// The linear scorer: logits, folding, initialisation, frozen weights.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "penstock/routers/option_changes.h"
#include "penstock/routers/resolve.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

std::shared_ptr<Scorer> linear(const testing::Options& options) {
  return scorer_registry().at("linear").make({.d_model = 64, .experts = 32},
                                             testing::node(options));
}

TEST(Linear, LogitsAreTheFoldedForm) {
  const auto scorer = linear({{"bias", true}});
  torch::NoGradGuard no_grad;
  scorer->to(at::kDouble);
  scorer->initialize(0.5, InitialDraws(1));
  const FoldedScorer folded = scorer->fold();
  folded.bias.normal_();
  const at::Tensor hidden = torch::randn({7, 64}, at::kDouble);
  const at::Tensor expected = hidden.matmul(folded.weight.t()) + folded.bias;
  EXPECT_LT(testing::farthest(scorer->score(hidden, {}).logits, expected), 1e-12);
  EXPECT_FALSE(linear({})->fold().bias.defined());
}

TEST(Linear, InitialisesFromTheGeneratorAlone) {
  const auto a = linear({{"bias", true}}), b = linear({{"bias", true}});
  a->initialize(0.3, InitialDraws(5));
  b->initialize(0.3, InitialDraws(5));
  EXPECT_TRUE(a->fold().weight.equal(b->fold().weight));
  // 2048 draws: the standard error of the deviation is 1.6 %.
  EXPECT_NEAR(a->fold().weight.std().item<double>(), 0.3, 0.03);
  EXPECT_EQ(a->fold().bias.abs().max().item<double>(), 0);
}

TEST(Linear, FrozenWeightsAreSavedButNotTrained) {
  const auto scorer = linear({{"bias", true}, {"frozen", true}});
  EXPECT_EQ(scorer->named_parameters().size(), 2U);
  for (const auto& parameter : scorer->parameters()) EXPECT_FALSE(parameter.requires_grad());
  EXPECT_FALSE(scorer->score(torch::randn({3, 64}), {}).logits.requires_grad());
  RouterConfig router{.method = "smoe"};
  EXPECT_TRUE(resolve(router).traits.trainable);
  EXPECT_TRUE(learns_bias(router));
  router.parts["linear"] = testing::node({{"frozen", true}});
  EXPECT_FALSE(resolve(router).traits.trainable);
  EXPECT_FALSE(learns_bias(router));
}

}  // namespace
}  // namespace penstock
