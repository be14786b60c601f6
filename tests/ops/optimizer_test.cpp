// AdamW and the global norm: two steps worked by hand, libtorch's AdamW, and the f32 path.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/ops.h"
#include "tests/ops/finite_difference.h"

namespace penstock::optimizer_test {
namespace {

using penstock::testing::relative_error;

struct State {
  std::vector<at::Tensor> w, g, m, v;
  std::vector<double> decay;
};

/// Tensors of odd sizes. One is longer than a piece of the fast path.
State random_state(at::ScalarType type) {
  torch::manual_seed(5);
  State state;
  for (const auto& sizes :
       std::vector<std::vector<std::int64_t>>{{3}, {17, 5}, {40001}, {0}, {129, 257}}) {
    state.w.push_back(torch::randn(sizes, at::kDouble).to(type));
    state.g.push_back(torch::randn(sizes, at::kDouble).to(type));
    state.m.push_back(torch::zeros(sizes, type));
    state.v.push_back(torch::zeros(sizes, type));
    state.decay.push_back(sizes.size() > 1 ? 0.1 : 0.0);
  }
  return state;
}

void steps(State& state, int count) {
  for (int t = 1; t <= count; ++t)
    ops::adamw_step(
        state.w, state.g, state.m, state.v, state.decay,
        {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .grad_scale = 0.5, .step = t});
}

TEST(AdamW, TwoStepsWorkedByHand) {
  // w = 1, lr = 0.1, decay = 0.5, β = (0.5, 0.75), eps = 0, gradients 2 then −1.
  // Step 1: m = 1, v = 1; m/(1−1/2) = 2, v/(1−3/4) = 4; w = 1 − 0.1 (0.5 + 2/2) = 0.85.
  // Step 2: m = 0, v = 0.75 + 0.25 = 1; w = 0.85 − 0.1 (0.425 + 0) = 0.8075.
  for (const auto type : {at::kDouble, at::kFloat}) {
    const std::vector<at::Tensor> w = {torch::tensor({1.0}, type)};
    const std::vector<at::Tensor> m = {torch::zeros({1}, type)}, v = {torch::zeros({1}, type)};
    ops::AdamWOptions options{.lr = 0.1, .beta1 = 0.5, .beta2 = 0.75, .eps = 0};
    ops::adamw_step(w, {torch::tensor({2.0}, type)}, m, v, {0.5}, options);
    EXPECT_NEAR(w[0].item<double>(), 0.85, 1e-6);
    EXPECT_NEAR(m[0].item<double>(), 1.0, 1e-6);
    EXPECT_NEAR(v[0].item<double>(), 1.0, 1e-6);
    options.step = 2;
    ops::adamw_step(w, {torch::tensor({-1.0}, type)}, m, v, {0.5}, options);
    EXPECT_NEAR(w[0].item<double>(), 0.8075, 1e-6);
  }
}

TEST(AdamW, MatchesLibtorch) {
  auto state = random_state(at::kDouble);
  std::vector<at::Tensor> theirs;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (std::size_t i = 0; i < state.w.size(); ++i) {
    theirs.push_back(state.w[i].clone().set_requires_grad(true));
    theirs[i].mutable_grad() = state.g[i] * 0.5;
    auto options = std::make_unique<torch::optim::AdamWOptions>(0.01);
    options->betas({0.9, 0.95}).eps(1e-8).weight_decay(state.decay[i]);
    groups.emplace_back(std::vector<at::Tensor>{theirs[i]}, std::move(options));
  }
  torch::optim::AdamW optimizer(groups, torch::optim::AdamWOptions(0.01));
  for (int t = 0; t < 3; ++t) optimizer.step();
  steps(state, 3);
  for (std::size_t i = 0; i < theirs.size(); ++i)
    EXPECT_LT(relative_error(state.w[i], theirs[i]), 1e-12);
}

TEST(AdamW, FastPathMatchesReference) {
  auto fast = random_state(at::kFloat), exact = random_state(at::kDouble);
  ops::reset_dispatch_counts();
  steps(fast, 4);
  EXPECT_EQ(ops::dispatch_counts()["adamw_step/cpu"], 4);
  steps(exact, 4);
  EXPECT_EQ(ops::dispatch_counts()["adamw_step/reference"], 4);
  for (std::size_t i = 0; i < fast.w.size(); ++i) {
    EXPECT_LT(relative_error(fast.w[i], exact.w[i]), 1e-6);
    EXPECT_LT(relative_error(fast.m[i], exact.m[i]), 1e-6);
    EXPECT_LT(relative_error(fast.v[i], exact.v[i]), 1e-6);
  }
}

TEST(AdamW, ZeroGradientOnlyDecays) {
  const std::vector<at::Tensor> w = {torch::full({20}, 2.0f)}, g = {torch::zeros({20})};
  const std::vector<at::Tensor> m = {torch::zeros({20})}, v = {torch::zeros({20})};
  ops::adamw_step(w, g, m, v, {0.1}, {.lr = 0.5});
  EXPECT_TRUE(w[0].allclose(torch::full({20}, 1.9f)));
}

TEST(AdamW, IsTheSameForAnyThreads) {
  ops::set_threads(2);
  auto two = random_state(at::kFloat);
  steps(two, 3);
  ops::set_threads(1);
  auto one = random_state(at::kFloat);
  steps(one, 3);
  ops::set_threads(2);
  for (std::size_t i = 0; i < one.w.size(); ++i) EXPECT_TRUE(one.w[i].equal(two.w[i]));
}

TEST(AdamW, TakesStridedGradients) {
  const std::vector<at::Tensor> w = {torch::zeros({3, 4})}, m = {torch::zeros({3, 4})};
  const std::vector<at::Tensor> v = {torch::zeros({3, 4})};
  const auto g = torch::arange(12, at::kFloat).view({4, 3}).t();
  ops::adamw_step(w, {g}, m, v, {0.0}, {.lr = 0.1, .beta1 = 0.5});
  EXPECT_TRUE(m[0].allclose(g * 0.5));
}

/// n weights and gradients, with moments that both types represent exactly.
State with_moments(at::ScalarType type, at::ScalarType moments, std::int64_t n) {
  torch::manual_seed(7);
  State out;
  const at::Tensor first = torch::randn({n}).to(at::kBFloat16),
                   second = torch::rand({n}).to(at::kBFloat16);
  out.w = {torch::randn({n}).to(type)};
  out.g = {torch::randn({n}).to(type)};
  out.m = {first.to(moments)};
  out.v = {second.to(moments)};
  out.decay = {0.0};
  return out;
}

/// The two bf16 neighbours of a value, in f64: the nearest one not above it in magnitude, and the
/// next.
std::pair<at::Tensor, at::Tensor> neighbours(const at::Tensor& f32) {
  const at::Tensor below = f32.contiguous().view(at::kInt).bitwise_and(-65536);
  return {below.view(at::kFloat).to(at::kDouble), (below + 65536).view(at::kFloat).to(at::kDouble)};
}

TEST(AdamW, RoundsMomentsInBf16UpWithTheProbabilityOfTheRest) {
  constexpr std::int64_t n = 200000;
  for (const int step : {1, 2, 1000}) {
    State halves = with_moments(at::kFloat, at::kBFloat16, n),
          exact = with_moments(at::kFloat, at::kFloat, n);
    const ops::AdamWOptions options{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .step = step};
    ops::adamw_step(halves.w, halves.g, halves.m, halves.v, halves.decay, options);
    ops::adamw_step(exact.w, exact.g, exact.m, exact.v, exact.decay, options);
    EXPECT_TRUE(halves.w[0].equal(exact.w[0]));  // the step itself uses the unrounded moments
    at::Tensor ups[2];
    for (const int kind : {0, 1}) {
      const at::Tensor value = kind == 0 ? exact.m[0] : exact.v[0],
                       rounded = (kind == 0 ? halves.m[0] : halves.v[0]).to(at::kDouble);
      const auto [below, above] = neighbours(value);
      const at::Tensor up = rounded.eq(above);
      EXPECT_TRUE(rounded.eq(below).logical_or(up).all().item<bool>());
      const at::Tensor rest = (value.to(at::kDouble) - below) / (above - below);
      // A draw's standard deviation is sqrt(rest (1 - rest)), at most 1/2. The bound is five
      // standard deviations of a mean of n draws.
      ups[kind] = up.to(at::kDouble) - rest;
      EXPECT_LT(ups[kind].mean().abs().item<double>(), 5 * 0.5 / std::sqrt(n)) << step;
      for (const double low : {0.0, 0.25, 0.5, 0.75}) {  // also within each quarter
        const at::Tensor some = rest.ge(low).logical_and(rest.lt(low + 0.25));
        EXPECT_LT(ups[kind].masked_select(some).mean().abs().item<double>(),
                  5 * 0.5 / std::sqrt(some.sum().item<double>()))
            << step << ": " << low;
      }
    }
    // The two draws of an element are uncorrelated, and so are the draws of neighbouring elements.
    const auto related = [&](const at::Tensor& a, const at::Tensor& b) {
      return ((a * b).mean() / (a.std() * b.std())).abs().item<double>();
    };
    EXPECT_LT(related(ups[0], ups[1]), 5 / std::sqrt(n));
    EXPECT_LT(related(ups[0].slice(0, 0, n - 1), ups[0].slice(0, 1)), 5 / std::sqrt(n));
  }
}

/// With rounding to nearest, v would stop changing where (1 - beta2) (g^2 - v) is under half a unit
/// of v's last place: at 1/4.
TEST(AdamW, ASecondMomentInBf16DoesNotStandStill) {
  constexpr std::int64_t n = 4000;
  State state = with_moments(at::kFloat, at::kBFloat16, n);
  state.m[0].zero_();
  state.v[0].zero_();
  state.g[0].fill_(1);
  for (int t = 1; t <= 3000; ++t)
    ops::adamw_step(state.w, state.g, state.m, state.v, state.decay, {.lr = 1e-5, .step = t});
  const double expected = 1 - std::pow(0.999, 3000);  // 0.9503
  EXPECT_NEAR(state.v[0].to(at::kDouble).mean().item<double>(), expected, 5e-3 * expected);
  EXPECT_NEAR(state.m[0].to(at::kDouble).mean().item<double>(), 1, 5e-3);
}

TEST(AdamW, DrawsOfBf16AreTheSameInBothImplementationsAndForAnyThreads) {
  constexpr std::int64_t n = 40001;
  const ops::AdamWOptions options{.lr = 0.01, .step = 77};
  const auto stepped = [&](at::ScalarType type, int threads) {
    ops::set_threads(threads);
    State state = with_moments(type, at::kBFloat16, n);
    ops::adamw_step(state.w, state.g, state.m, state.v, state.decay, options);
    ops::set_threads(2);
    return state;
  };
  ops::reset_dispatch_counts();
  const State two = stepped(at::kFloat, 2), one = stepped(at::kFloat, 1);
  EXPECT_EQ(ops::dispatch_counts()["adamw_step/cpu"], 2);
  const State exact = stepped(at::kDouble, 2);
  EXPECT_EQ(ops::dispatch_counts()["adamw_step/reference"], 1);
  for (const auto member : {&State::m, &State::v}) {
    EXPECT_TRUE((two.*member)[0].equal((one.*member)[0]));
    // The last bit of the f32 sum changes the outcome of a draw about once in 2^16 elements.
    const at::Tensor other = (two.*member)[0].ne((exact.*member)[0]);
    EXPECT_LT(other.sum().item<std::int64_t>(), 20);
  }
}

TEST(AdamW, RefusesWhatDoesNotFit) {
  const std::vector<at::Tensor> a = {torch::zeros({3})}, b = {torch::zeros({4})};
  EXPECT_THROW(ops::adamw_step(a, b, a, a, {0.0}, {.lr = 0.1}), Error);
  const std::vector<at::Tensor> halves = {torch::zeros({3}, at::kBFloat16)};
  EXPECT_THROW(ops::adamw_step(a, a, halves, a, {0.0}, {.lr = 0.1}), Error);
  EXPECT_THROW(ops::adamw_step(halves, halves, halves, halves, {0.0}, {.lr = 0.1}), Error);
  EXPECT_THROW(ops::adamw_step(a, {}, a, a, {0.0}, {.lr = 0.1}), Error);
  EXPECT_THROW(ops::adamw_step(a, {at::Tensor()}, a, a, {0.0}, {.lr = 0.1}), Error);
  EXPECT_THROW(ops::adamw_step(a, a, a, a, {0.0}, {.lr = 0.1, .step = 0}), Error);
}

TEST(GlobalNorm, WorkedByHand) {
  ops::reset_dispatch_counts();
  EXPECT_DOUBLE_EQ(ops::global_norm({torch::tensor({3.0f}), torch::tensor({4.0f, 12.0f})}), 13.0);
  EXPECT_EQ(ops::dispatch_counts()["global_norm/cpu"], 1);
  EXPECT_DOUBLE_EQ(ops::global_norm({torch::tensor({3.0}, at::kDouble), torch::tensor({4.0f})}),
                   5.0);
  EXPECT_EQ(ops::dispatch_counts()["global_norm/reference"], 1);
  EXPECT_EQ(ops::global_norm({}), 0);
  EXPECT_EQ(ops::global_norm({torch::empty({0})}), 0);
}

TEST(GlobalNorm, AddsInF64InAFixedOrder) {
  // A running sum in f32 would stop growing at 2^24.
  const auto ones = torch::ones({(1 << 24) + 4096});
  ops::set_threads(2);
  const double two = ops::global_norm({ones});
  EXPECT_DOUBLE_EQ(two, std::sqrt((1 << 24) + 4096.0));
  const auto random = torch::randn({300001});
  const double first = ops::global_norm({random});
  ops::set_threads(1);
  EXPECT_EQ(ops::global_norm({random}), first);
  ops::set_threads(2);
}

TEST(GlobalNorm, RefusesMissingTensors) {
  EXPECT_THROW(ops::global_norm({at::Tensor()}), Error);
  EXPECT_THROW(ops::global_norm({torch::zeros({2}, at::kLong)}), Error);
}

}  // namespace
}  // namespace penstock::optimizer_test
