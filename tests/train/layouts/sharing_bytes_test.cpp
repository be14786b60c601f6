// What ranks hold and send, counted before, beside what an optimizer holds.
#include "penstock/train/layouts/sharing_bytes.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/models/language_model.h"
#include "penstock/models/make_model.h"
#include "penstock/train/ranks/shared_optimizer.h"
#include "tests/dist/ranks.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

std::vector<ParameterSize> two_layers() {
  return {{"embed", 16384}, {"layer_0.w", 4 * 16384}, {"layer_1.w", 4 * 16384}};
}

TEST(SharingBytes, CountWhatARankSends) {
  constexpr std::int64_t kPiece = 4 * 16384, kAll = 9 * kPiece;
  EXPECT_EQ(sharing_bytes(two_layers(), {.parts = 8}).sent_gradients, 0);
  const auto four = [](std::size_t parts, int zero) {
    return sharing_bytes(two_layers(), {.parts = parts, .ranks = 4, .zero = zero});
  };
  // One rank has all of `embed`, each a piece of every layer; others send it all of theirs.
  EXPECT_EQ(four(8, 0).sent_gradients, kAll - 2 * kPiece);  // one node of two parts
  EXPECT_EQ(four(8, 2).sent_gradients, 2 * (kAll - 2 * kPiece));
  EXPECT_EQ(four(8, 0).sent_sums, 3 * 3 * kPiece);  // slots of equal size for three others
  EXPECT_EQ(four(8, 0).sent_weights, 0);
  EXPECT_EQ(four(8, 1).sent_weights, 3 * 3 * kPiece);
  EXPECT_EQ(four(8, 3).sent_weights, 3 * kPiece + 2 * 2 * 3 * 2 * kPiece);  // two rounds
  EXPECT_EQ(four(8, 1).optimizer, 2 * 3 * kPiece);
  EXPECT_EQ(sharing_bytes(two_layers(), {.parts = 6, .ranks = 2}).sent_gradients,
            2 * (kPiece + 2 * 2 * kPiece));  // two nodes: parts 0-1 and 2
}

TEST(SharingBytes, AreWhatAnOptimizerHolds) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  constexpr std::size_t kParts = 8;
  Recipe recipe = testing::small_recipe("topk", 8, 16);
  recipe.model.vocab = 1024;
  recipe.model.d_ffn = 512;
  const ModelConfig config = recipe.model.resolved();
  for (const int zero : {0, 1, 2, 3}) {
    const SharingBytes counted =
        sharing_bytes(parameter_sizes(config), {.parts = kParts, .ranks = 2, .zero = zero});
    std::vector<HeldBytes> before(2), after(2);
    testing::on_ranks(2, [&](const dist::ProcessGroup& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      const auto model = make_model(config);
      SharedOptimizer optimizer(*model, {}, {}, GradientSharing::among(group, zero));
      optimizer.begin(kParts);
      for (int part = 0; part < 4; ++part) {
        for (const at::Tensor& weight : model->parameters())
          weight.mutable_grad() = at::zeros(weight.sizes());
        if (part == 3 && zero < 2) before[rank] = optimizer.held();
        optimizer.after_part();
      }
      optimizer.after_parts();
      optimizer.finish(true);
      after[rank] = optimizer.held();
    });
    const auto most = [](const std::vector<HeldBytes>& of, std::int64_t HeldBytes::*member) {
      return static_cast<double>(std::max(of[0].*member, of[1].*member));
    };
    const auto near = [&](double held, std::int64_t expected) {
      EXPECT_NEAR(held, static_cast<double>(expected), 0.05 * held) << "zero " << zero;
    };
    near(most(after, &HeldBytes::optimizer), counted.optimizer);
    if (zero < 3) near(most(after, &HeldBytes::parameters), counted.parameters);
    if (zero == 3)  // between passes, without the two layers that one holds in a pass
      EXPECT_LT(most(after, &HeldBytes::parameters), static_cast<double>(counted.parameters));
    if (zero < 2) near(most(before, &HeldBytes::gradients), counted.gradients);
    if (zero > 0) near(most(after, &HeldBytes::gradients), counted.optimizer / 2);
  }
}

}  // namespace
}  // namespace penstock
