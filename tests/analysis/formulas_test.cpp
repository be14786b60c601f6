// Entropy, load and similarity, compared with hand-worked numbers.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "penstock/analysis/entropy.h"
#include "penstock/analysis/expert_load.h"
#include "penstock/analysis/similarity.h"

namespace penstock::analysis {
namespace {

TEST(Entropy, IsThatOfHandWorkedDistributions) {
  const double off = -std::numeric_limits<double>::infinity(), ln3 = std::log(3.0);
  const at::Tensor h =
      router_entropies(torch::tensor({5.0, 5.0, ln3, 0.0, 0.0, off}, at::kDouble).view({3, 2}));
  EXPECT_NEAR(h[0].item<double>(), std::numbers::ln2, 1e-15);
  // p = (3/4, 1/4) has the entropy ln 4 − 3/4 ln 3.
  EXPECT_NEAR(h[1].item<double>(), std::log(4.0) - 0.75 * ln3, 1e-15);
  EXPECT_EQ(h[2].item<double>(), 0);
  EXPECT_NEAR(router_entropies(at::zeros({1, 16})).item<double>(), 2.772588722, 1e-9);
}

TEST(Entropy, MomentsOfPartsAreThoseOfTheWhole) {
  Moments moments;
  EXPECT_EQ(moments.sd(), 0);
  moments.add(torch::tensor({1.0, 2.0}, at::kDouble));
  moments.add(at::zeros({0}));
  moments.add(torch::tensor({3.0f, 8.0f}));
  EXPECT_EQ(moments.count(), 4);
  EXPECT_NEAR(moments.mean(), 3.5, 1e-12);
  EXPECT_NEAR(moments.sd(), std::sqrt((6.25 + 2.25 + 0.25 + 20.25) / 4), 1e-12);
}

TEST(ExpertLoad, IsThatOfHandWorkedCounts) {
  const double counts[] = {3, 1, 0, 0};
  const ExpertLoad load = expert_load(counts, 2);
  EXPECT_EQ(load.share, (std::vector<double>{0.75, 0.25, 0, 0}));
  EXPECT_NEAR(load.variation, std::sqrt((4 + 0 + 1 + 1) / 4.0), 1e-12);
  EXPECT_EQ(load.idle, 2);
  EXPECT_EQ(load.active, 2);
  const double none[] = {0, 0};
  EXPECT_EQ(expert_load(none, 5).variation, 0);
  EXPECT_EQ(expert_load(none, 5).idle, 2);
}

TEST(Similarity, OutputCosinesAreMeansOverTokens) {
  // The first two experts' outputs are 45 degrees apart on the first token and opposite on the
  // second. The third expert's output is 0 on the second token.
  const at::Tensor outputs =
      torch::tensor({1.0, 0.0, 0.0, 2.0, 3.0, 3.0, 0.0, -1.0, 0.0, 7.0, 0.0, 0.0}, at::kDouble)
          .view({3, 2, 2});
  const at::Tensor cosines = output_cosines(outputs);
  const double half = std::sqrt(0.5);
  EXPECT_NEAR(cosines[0][1].item<double>(), (half - 1) / 2, 1e-12);
  EXPECT_NEAR(cosines[0][2].item<double>(), 0, 1e-12);
  EXPECT_NEAR(cosines[1][2].item<double>(), half / 2, 1e-12);
  EXPECT_NEAR(cosines[2][2].item<double>(), 0.5, 1e-12);
  EXPECT_NEAR(off_diagonal_mean(cosines), ((half - 1) / 2 + half / 2) / 3, 1e-12);
}

TEST(Similarity, AlignmentIgnoresRotationScaleAndOffset) {
  // One feature per expert, of 3 tokens: (1, −1, 0) is compared with (1, 1, −2), (1, 0, −1) and
  // 2·(1, −1, 0) + 7. The squared cosines are 0, 1/4 and 1.
  const at::Tensor one =
      torch::tensor({1.0, -1.0, 0.0, 1.0, 1.0, -2.0, 1.0, 0.0, -1.0, 9.0, 5.0, 7.0}, at::kDouble)
          .view({4, 3, 1});
  const at::Tensor alignment = linear_cka(one);
  EXPECT_NEAR(alignment[0][1].item<double>(), 0, 1e-12);
  EXPECT_NEAR(alignment[0][2].item<double>(), 0.25, 1e-12);
  EXPECT_NEAR(alignment[0][3].item<double>(), 1, 1e-12);
  torch::manual_seed(1);
  const at::Tensor y = at::randn({9, 4}, at::kDouble);
  const at::Tensor rotation = std::get<0>(at::linalg_qr(at::randn({4, 4}, at::kDouble)));
  const at::Tensor pair = at::stack({y, 3 * y.matmul(rotation) + 1});
  EXPECT_NEAR(linear_cka(pair)[0][1].item<double>(), 1, 1e-12);
  EXPECT_LT(std::abs(output_cosines(pair)[0][1].item<double>()), 0.9);
  // The definition of linear CKA, with [d, d] products that the implementation avoids.
  const at::Tensor z = at::randn({9, 4}, at::kDouble);
  const at::Tensor a = y - y.mean(0, true), b = z - z.mean(0, true);
  const at::Tensor by_definition =
      b.t().matmul(a).square().sum() / (a.t().matmul(a).norm() * b.t().matmul(b).norm());
  EXPECT_NEAR(linear_cka(at::stack({y, z}))[0][1].item<double>(), by_definition.item<double>(),
              1e-12);
}

TEST(Similarity, RowCosinesByHand) {
  const at::Tensor rows = torch::tensor({3.0f, 4.0f, 4.0f, 3.0f, 0.0f, 0.0f}).view({3, 2});
  const at::Tensor cosines = row_cosines(rows);
  EXPECT_NEAR(cosines[0][1].item<double>(), 0.96, 1e-12);
  EXPECT_EQ(cosines[0][2].item<double>(), 0);
  EXPECT_EQ(off_diagonal_mean(at::ones({1, 1})), 0);
}

}  // namespace
}  // namespace penstock::analysis
