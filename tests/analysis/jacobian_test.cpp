// The Jacobian of a MoE layer and the bounds on its second term, against the finite differences of
// jacobian.py.
#include "penstock/analysis/jacobian.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "jacobian_expected.h"
#include "penstock/analysis/rank.h"
#include "tests/base/error_of.h"

namespace penstock::analysis {
namespace {

constexpr std::int64_t kWidth = 6, kInner = 5, kExperts = 5;

at::Tensor filled(std::int64_t n, at::IntArrayRef shape) {
  const at::Tensor k = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (0.5 * at::sin(0.37 * static_cast<double>(n) + 1.3 * k + 0.003 * k * k)).view(shape);
}

MoeOptions options_of(const std::string& form, std::int64_t k) {
  MoeOptions out{.d_model = kWidth,
                 .d_ffn = kInner,
                 .experts = kExperts,
                 .form = {.activation = ops::Activation::relu, .bias = true}};
  out.router.method = form == "relu" ? "remoe" : "smoe";
  out.router.k = static_cast<double>(k);
  out.router.parts["linear"].set("bias", true);
  if (form != "relu") out.router.parts["topk"].set("softmax", form);
  return out;
}

std::shared_ptr<MoeLayer> filled_layer(const MoeOptions& options) {
  auto layer = std::make_shared<MoeLayer>(options);
  torch::NoGradGuard no_grad;
  auto parameters = layer->named_parameters();
  std::int64_t n = 0;
  for (const char* name : {"router.scorer.weight", "router.scorer.bias", "experts.up",
                           "experts.up_bias", "experts.down", "experts.down_bias"}) {
    at::Tensor* parameter = parameters.find(name);
    EXPECT_NE(parameter, nullptr) << name;
    if (parameter) parameter->copy_(filled(n, parameter->sizes()));
    ++n;
  }
  return layer;
}

at::Tensor token() { return at::sin(0.9 * at::arange(kWidth, at::kDouble) + 0.4); }

at::Tensor matrix(const std::vector<double>& values) {
  return torch::tensor(values, at::kDouble).view({kWidth, kWidth});
}

TEST(Jacobian, IsTheSumOfItsTermsAndAgreesWithDifferences) {
  for (const auto& expected : expected::kJacobians) {
    SCOPED_TRACE(std::string(expected.form) + ", k = " + std::to_string(expected.k));
    const MoeOptions options = options_of(expected.form, expected.k);
    const auto layer = filled_layer(options);
    RoutedLayer routed(options, *layer);
    const LayerJacobian j = routed.jacobian(token());
    EXPECT_LT((j.whole - matrix(expected.whole)).abs().max().item<double>(), 1e-8);
    EXPECT_LT((j.gates - matrix(expected.gates)).abs().max().item<double>(), 1e-8);
    EXPECT_LT((j.gates_closed - matrix(expected.gates)).abs().max().item<double>(), 1e-8);
    EXPECT_LT((j.whole - j.experts - j.gates).abs().max().item<double>(), 1e-14);
    EXPECT_LT((j.gate_rows - j.gate_rows_closed).abs().max().item<double>(), 1e-14);
    EXPECT_EQ(rank_of(j.gates).numerical, expected.rank);
    EXPECT_EQ(rank_of(j.gates).numerical, routed.gating().rank_bound(j.gate_rows.size(0)));
  }
}

TEST(Jacobian, SaysTheSameInTheLayerItself) {
  const MoeOptions options = options_of("after", 2);
  const auto layer = filled_layer(options);
  RoutedLayer routed(options, *layer);
  const at::Tensor x = token().unsqueeze(0);
  const at::Tensor y = layer->forward(x.to(at::kFloat)).y;
  EXPECT_LT((routed.forward(x) - y.to(at::kDouble)).abs().max().item<double>(), 1e-6);
}

// The paper writes J₂ as a combination of the k kept rows. This holds if the softmax is over the
// kept rows. With a softmax over all experts, J₂ leaves their span by one direction, although its
// rank is at most k.
TEST(Jacobian, SpansKeptRowsOnlyWhereTheSoftmaxIsOverThem) {
  for (const bool after : {true, false}) {
    const MoeOptions options = options_of(after ? "after" : "before", 2);
    RoutedLayer routed(options, *filled_layer(options));
    const Gating& gating = routed.gating();
    const at::Tensor x = token(), kept = gating.weight.index_select(0, gating.active(x)),
                     rows = routed.jacobian(x).gate_rows;
    EXPECT_EQ(rank_of(kept).numerical, 2);
    EXPECT_EQ(rank_of(rows).numerical, after ? 1 : 2);
    EXPECT_EQ(rank_of(at::cat({kept, rows})).numerical, after ? 2 : 3);
    // In both cases J₂ stays in the span of the differences of all rows.
    const at::Tensor differences = gating.weight.slice(0, 1) - gating.weight.slice(0, 0, 1);
    EXPECT_EQ(rank_of(at::cat({differences, rows})).numerical, kExperts - 1);
  }
}

TEST(Jacobian, OfATokenWithoutExpertsIsZero) {
  const MoeOptions options = options_of("relu", 1);
  const auto layer = filled_layer(options);
  {
    torch::NoGradGuard no_grad;
    layer->named_parameters()["router.scorer.bias"].fill_(-100);
  }
  RoutedLayer routed(options, *layer);
  const LayerJacobian j = routed.jacobian(token());
  EXPECT_EQ(j.whole.abs().max().item<double>(), 0);
  EXPECT_EQ(j.gates.abs().max().item<double>(), 0);
  EXPECT_EQ(j.gate_rows.size(0), 0);
  EXPECT_EQ(summarize_jacobians(routed, token().unsqueeze(0)).most, 0);
}

TEST(Jacobian, SummaryTakesAnotherNumberOfExperts) {
  torch::manual_seed(3);
  const MoeOptions options = options_of("after", 2);
  const auto layer = filled_layer(options);
  const at::Tensor tokens = at::randn({12, kWidth}, at::kDouble);
  for (const std::int64_t k : {1, 2, 3, 5}) {
    RoutedLayer routed(options, *layer, k);
    const JacobianSummary summary = summarize_jacobians(routed, tokens);
    EXPECT_EQ(summary.k, k);
    EXPECT_EQ(summary.bound_most, k - 1);
    EXPECT_LE(summary.most, k - 1);
    EXPECT_EQ(summary.together, k == 1 ? 0 : kExperts - 1);
    EXPECT_EQ(summary.span_bound, kExperts - 1);
    EXPECT_TRUE(summary.bounds_hold);
    EXPECT_LT(summary.sum_error, 1e-13);
    if (k > 1) {
      EXPECT_GT(summary.share, 0.001);
      EXPECT_LT(summary.closed_error, 1e-13);
    }
  }
}

TEST(Gating, RefusesWhatIsNoMatrixOrNoFormula) {
  const auto reason = [](const std::string& method) {
    return declines_gating(resolve({.method = method}));
  };
  EXPECT_EQ(reason("topk"), "");
  EXPECT_EQ(reason("remoe"), "");
  EXPECT_EQ(reason("hyperrouter"), "");
  EXPECT_EQ(reason("smoe-dropout"), "");
  testing::expect_says(reason("xmoe"), {"'cosine'"});
  testing::expect_says(reason("expert-choice"), {"'expert-choice'"});
  testing::expect_says(reason("switch"), {"'topk-capacity'"});
  testing::expect_says(reason("loss-free"), {"with a softmax"});
  const std::vector<std::string> biased{"loss-free"};
  testing::expect_says(declines_gating(resolve({.method = "topk", .balancers = biased})),
                       {"a bias moves"});
}

}  // namespace
}  // namespace penstock::analysis
