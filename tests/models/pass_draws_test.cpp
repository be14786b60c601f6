#include "penstock/models/pass_draws.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

RoutingContext context_of(std::uint64_t seed) {
  return {.step = 3, .generator = at::detail::createCPUGenerator(seed)};
}

TEST(PassDraws, OfALayerDoNotDependOnTheLayersBefore) {
  const PassDraws draws(context_of(1)), again(context_of(1));
  const std::uint64_t first = next_bits(*draws.of_layer(context_of(9), 0).generator);
  const std::uint64_t second = next_bits(*draws.of_layer({.step = 4}, 1).generator);
  EXPECT_NE(first, second);
  EXPECT_EQ(next_bits(*again.of_layer({}, 1).generator), second);  // layer 0 has drawn nothing
  EXPECT_EQ(draws.of_layer({.step = 4}, 1).step, 4);
}

TEST(PassDraws, OfTwoPassesWithOneGeneratorDiffer) {
  const RoutingContext context = context_of(1);
  const PassDraws first(context), second(context);
  EXPECT_NE(next_bits(*first.of_layer({}, 0).generator),
            next_bits(*second.of_layer({}, 0).generator));
}

TEST(PassDraws, AreNotMadeWhereThePassHasNoGenerator) {
  EXPECT_FALSE(PassDraws({}).of_layer({}, 0).generator.has_value());
}

}  // namespace
}  // namespace penstock
