#include "penstock/ops/initial_draws.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/error.h"

namespace penstock::initial_draws_test {
namespace {

at::Tensor drawn(const InitialDraws& draws, const char* name, at::IntArrayRef shape, double std = 1,
                 double mean = 0, std::int64_t first = 0, at::ScalarType type = at::kFloat) {
  const at::Tensor out = torch::empty(shape, type);
  draws.normal(name, out, std, mean, first);
  return out;
}

// The numbers come from initial_draws_numbers.py.
TEST(InitialDraws, AreThoseOfTheDefinition) {
  const auto expect = [](const at::Tensor& values, const std::vector<double>& wanted) {
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(values[static_cast<std::int64_t>(i)].item<double>(), wanted[i], 3e-6);
  };
  expect(drawn(InitialDraws(1), "embed_tokens", {5}),
         {-1.1253966, -0.7548498, -0.1463122, -0.6552953, -0.0194580});
  expect(drawn(InitialDraws(7).of("layer_0").of("mlp").of("experts"), "gate_up", {5}),
         {-0.2694810, 0.6980385, 1.5863266, -0.6360600, -0.4492315});
}

TEST(InitialDraws, HaveTheMomentsOfANormalDistribution) {
  const at::Tensor x = drawn(InitialDraws(3), "weight", {1000, 1000}, 0.5, 2).to(at::kDouble);
  const at::Tensor z = (x - 2) / 0.5;
  EXPECT_NEAR(z.mean().item<double>(), 0, 4e-3);
  EXPECT_NEAR(z.square().mean().item<double>(), 1, 6e-3);
  EXPECT_NEAR(z.pow(3).mean().item<double>(), 0, 0.012);
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3, 0.04);
  EXPECT_NEAR((z.abs() > 2).to(at::kDouble).mean().item<double>(), 0.0455, 1e-3);
  const at::Tensor flat = z.flatten();
  for (const std::int64_t lag : {1, 2, 1000})
    EXPECT_NEAR((flat.slice(0, lag) * flat.slice(0, 0, -lag)).mean().item<double>(), 0, 4e-3)
        << lag;
}

TEST(InitialDraws, APartIsThatPartOfTheWhole) {
  const InitialDraws draws(5);
  const at::Tensor whole = drawn(draws, "weight", {40'000});
  for (const std::int64_t first : {0, 1, 16'383, 20'000})
    EXPECT_TRUE(
        drawn(draws, "weight", {1001}, 1, 0, first).equal(whole.slice(0, first, first + 1001)))
        << first;
  EXPECT_THROW(drawn(draws, "weight", {1}, 1, 0, -1), AssertionError);
}

TEST(InitialDraws, DependOnSeedAndWholeNameAlone) {
  const at::Tensor one = drawn(InitialDraws(5).of("a"), "weight", {64});
  EXPECT_TRUE(drawn(InitialDraws(5), "a.weight", {64}).equal(one));
  EXPECT_FALSE(drawn(InitialDraws(5).of("b"), "weight", {64}).equal(one));
  EXPECT_FALSE(drawn(InitialDraws(6).of("a"), "weight", {64}).equal(one));
  EXPECT_TRUE(drawn(InitialDraws(5).of("a"), "weight", {64}, 1, 0, 0, at::kDouble)
                  .equal(one.to(at::kDouble)));
}

TEST(InitialDraws, OfLibtorchsGeneratorFollowItsSeed) {
  const auto draw = [](std::uint64_t seed) {
    torch::manual_seed(seed);
    return drawn(InitialDraws::from_default_generator(), "weight", {8});
  };
  EXPECT_TRUE(draw(1).equal(draw(1)));
  EXPECT_FALSE(draw(1).equal(draw(2)));
}

}  // namespace
}  // namespace penstock::initial_draws_test
