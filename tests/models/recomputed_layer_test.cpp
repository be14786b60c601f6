// A layer that is computed again in the backward pass has to route as in the forward pass.
#include "penstock/models/recomputed_layer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Runs a layer of two experts whose output is twice its input, and its backward pass. The n-th run
/// of the layer has the n-th offsets; undefined offsets are those of a plan without assignments.
/// @return the input's gradient
at::Tensor gradient_of(const std::vector<at::Tensor>& offsets) {
  std::size_t run = 0;
  const LayerPass layer = [&](const std::vector<at::Tensor>& inputs, const RoutingContext&,
                              std::optional<RoutingResult>& routing) {
    routing.emplace();
    routing->plan.offsets = offsets.at(run++);
    return std::vector<at::Tensor>{inputs[0] * 2};
  };
  const at::Tensor x = torch::ones({3}).requires_grad_(true);
  std::optional<RoutingResult> routing;
  recomputed_layer(layer, {x}, {}, {}, routing)[0].sum().backward();
  EXPECT_EQ(run, 2U);
  return x.grad();
}

at::Tensor ends(std::int64_t of_first, std::int64_t of_second) {
  return torch::tensor({std::int64_t{0}, of_first, of_second}, at::kLong);
}

TEST(RecomputedLayer, HasTheGradientOfOnePass) {
  EXPECT_TRUE(gradient_of({ends(1, 3), ends(1, 3)}).equal(torch::full({3}, 2.0)));
  EXPECT_TRUE(gradient_of({at::Tensor(), at::Tensor()}).equal(torch::full({3}, 2.0)));
}

TEST(RecomputedLayer, RefusesASecondPassThatRoutesOtherwise) {
  EXPECT_THROW(gradient_of({ends(1, 3), ends(2, 3)}), AssertionError);
  EXPECT_THROW(gradient_of({ends(1, 3), ends(1, 2)}), AssertionError);
  EXPECT_THROW(gradient_of({ends(1, 3), at::Tensor()}), AssertionError);
}

}  // namespace
}  // namespace penstock
