// The counts of what ranks hold and send, compared with what an optimizer holds.
#include "penstock/train/layouts/sharing_bytes.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/models/language_model.h"
#include "penstock/models/make_model.h"
#include "penstock/train/ranks/shared_optimizer.h"
#include "tests/dist/ranks.h"
#include "tests/train/layouts/parameter_sizes.h"
#include "tests/train/small_run.h"

namespace penstock::sharing_bytes_test {
namespace {

using testing::parameter_sizes;

std::vector<ParameterSize> two_layers() {
  return {{"embed", 16384}, {"layer_0.w", 4 * 16384}, {"layer_1.w", 4 * 16384}};
}

TEST(SharingBytes, CountWhatARankSends) {
  constexpr std::int64_t kPiece = 4 * 16384, kAll = 9 * kPiece;
  EXPECT_EQ(sharing_bytes(two_layers(), {.parts = 8}).sent_gradients, 0);
  const auto four = [](std::size_t parts, int zero) {
    return sharing_bytes(two_layers(), {.parts = parts, .ranks = 4, .zero = zero});
  };
  // One rank owns all of `embed`, and each rank owns a piece of every layer. A rank sends its
  // gradients of all other pieces.
  EXPECT_EQ(four(8, 0).sent_gradients, kAll - 2 * kPiece);  // one tree node of two parts
  EXPECT_EQ(four(8, 2).sent_gradients, 2 * (kAll - 2 * kPiece));
  EXPECT_EQ(four(8, 0).sent_sums, 3 * 3 * kPiece);  // slots of equal size for three other ranks
  EXPECT_EQ(four(8, 0).sent_weights, 0);
  EXPECT_EQ(four(8, 1).sent_weights, 3 * 3 * kPiece);
  EXPECT_EQ(four(8, 3).sent_weights, 3 * kPiece + 2 * 2 * 3 * 2 * kPiece);  // two rounds
  EXPECT_EQ(four(8, 1).optimizer, 2 * 3 * kPiece);
  EXPECT_EQ(sharing_bytes(two_layers(), {.parts = 6, .ranks = 2}).sent_gradients,
            2 * (kPiece + 2 * 2 * kPiece));  // two tree nodes: parts 0-1 and 2
}

TEST(SharingBytes, CountGradientsOfThreeLayersAtATime) {
  constexpr std::int64_t kPiece = 4 * 16384;
  const auto two = [](std::vector<ParameterSize> sizes, std::size_t parts) {
    return sharing_bytes(sizes, {.parts = parts, .ranks = 2, .zero = 2}).gradients;
  };
  // All 9 pieces of whole gradients, and this rank's sums of half of layer 1. The sums of layer 0
  // and of `embed` do not exist before their whole gradients are freed.
  EXPECT_EQ(two(two_layers(), 2), (9 + 2) * kPiece);
  // Of six layers, whole gradients of three; the sums of the first four, half of each.
  std::vector<ParameterSize> six;
  for (int layer = 0; layer < 6; ++layer) six.push_back({concat("layer_", layer, ".w"), 4 * 16384});
  EXPECT_EQ(two(six, 2), (3 * 4 + 4 * 2) * kPiece);
  // With four parts, the first part of each rank is a node that waits for the second part. The
  // layer that is exchanged also has this rank's half of its second part.
  EXPECT_EQ(two(six, 4), (3 * 4 + 2 * 6 * 2 + 2) * kPiece);
}

TEST(SharingBytes, CountTheGradientsOfALayerThatIsLargerThanTheOthers) {
  constexpr std::int64_t kPiece = 4 * 16384;
  std::vector<ParameterSize> sizes;
  for (int layer = 0; layer < 4; ++layer)
    sizes.push_back({concat("layer_", layer, ".w"), (layer == 3 ? 32 : 2) * 16384});
  // The last layer comes first in the backward pass: its whole gradients and those of two others,
  // and this rank's half of its sums.
  EXPECT_EQ(sharing_bytes(sizes, {.parts = 2, .ranks = 2, .zero = 2}).gradients,
            (32 + 2 + 2 + 16) * kPiece);
}

constexpr std::size_t kParts = 8;

/// The bytes of the fuller of two ranks, before the last gradient of a step and after the step.
struct Held {
  HeldBytes before, after;
};

HeldBytes most_of(const HeldBytes& one, const HeldBytes& other) {
  return {.parameters = std::max(one.parameters, other.parameters),
          .gradients = std::max(one.gradients, other.gradients),
          .optimizer = std::max(one.optimizer, other.optimizer)};
}

/// @param one_machine  whether the two ranks share memory
Held held_by_two(const ModelConfig& config, int zero, bool one_machine) {
  std::vector<Held> held(2);
  const auto step = [&](const dist::ProcessGroup& group) {
    Held& mine = held[static_cast<std::size_t>(group.rank())];
    const auto model = make_model(config);
    SharedOptimizer optimizer(*model, {}, {}, GradientSharing::among(group, zero));
    optimizer.begin(kParts);
    for (int part = 0; part < 4; ++part) {
      for (const at::Tensor& weight : model->parameters())
        weight.mutable_grad() = at::zeros(weight.sizes());
      if (part == 3) mine.before = optimizer.held();
      optimizer.after_part();
    }
    optimizer.after_parts();
    optimizer.finish(true);
    mine.after = optimizer.held();
  };
  testing::on_ranks(2, step, {.shared_memory = one_machine, .check = true});
  return {most_of(held[0].before, held[1].before), most_of(held[0].after, held[1].after)};
}

void expect_near(std::int64_t held, std::int64_t expected) {
  EXPECT_NEAR(static_cast<double>(held), static_cast<double>(expected),
              0.05 * static_cast<double>(held));
}

class SharingBytesRanks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
    Recipe recipe = testing::small_recipe("topk", 8, 16);
    recipe.model.vocab = 1024;
    recipe.model.d_ffn = 512;
    config_ = recipe.model.resolved();
    counted_ =
        sharing_bytes(parameter_sizes(config_), {.parts = kParts, .ranks = 2, .zero = GetParam()});
  }
  ModelConfig config_;
  SharingBytes counted_;
};

TEST_P(SharingBytesRanks, AreWhatAnOptimizerHolds) {
  const int zero = GetParam();
  const Held held = held_by_two(config_, zero, /*one_machine=*/false);
  expect_near(held.after.optimizer, counted_.optimizer);
  if (zero < 3)
    expect_near(held.after.parameters, counted_.parameters);
  else  // between passes, without the two layers that a rank holds in a pass
    EXPECT_LT(held.after.parameters, counted_.parameters);
  if (zero < 2) expect_near(held.before.gradients, counted_.gradients);
  if (zero > 0) expect_near(held.after.gradients, counted_.optimizer / 2);
}

TEST_P(SharingBytesRanks, AreOneCopyOfTheWeightsOnOneMachine) {
  const Held apart = held_by_two(config_, GetParam(), false);
  const Held together = held_by_two(config_, GetParam(), true);
  EXPECT_EQ(together.after.optimizer, apart.after.optimizer);
  EXPECT_EQ(together.after.gradients, apart.after.gradients);
  std::int64_t whole = 0;
  for (const ParameterSize& each : parameter_sizes(config_)) whole += 4 * each.elements;
  if (GetParam() == 0)
    EXPECT_EQ(together.after.parameters, whole);
  else  // each rank counts its spans: half of the bytes of the spans' two moments
    EXPECT_EQ(together.after.parameters, together.after.optimizer / 2);
  const SharingBytes counted =
      sharing_bytes(parameter_sizes(config_),
                    {.parts = kParts, .ranks = 2, .zero = GetParam(), .one_machine = true});
  expect_near(together.after.parameters, counted.parameters);
  EXPECT_EQ(counted.sent_weights, 0);
  EXPECT_EQ(counted.gradients, counted_.gradients);
}

INSTANTIATE_TEST_SUITE_P(Zero, SharingBytesRanks, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace penstock::sharing_bytes_test
