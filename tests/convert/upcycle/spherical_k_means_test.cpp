// Spherical k-means: in the plane by hand, its conditions on random vectors, and refusals.
#include "penstock/convert/upcycle/spherical_k_means.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// A vector of length `length` at the angle `degrees`.
at::Tensor at_angle(double degrees, double length = 1) {
  const double a = degrees * std::numbers::pi / 180;
  return torch::tensor({length * std::cos(a), length * std::sin(a)}, at::kDouble);
}

/// Angles of the centres in degrees, sorted.
std::vector<double> angles(const SphericalKMeans& means) {
  std::vector<double> out;
  for (std::int64_t c = 0; c < means.centres.size(0); ++c)
    out.push_back(
        std::atan2(means.centres[c][1].item<double>(), means.centres[c][0].item<double>()) * 180 /
        std::numbers::pi);
  std::ranges::sort(out);
  return out;
}

/// Three clusters: 10 and 30 degrees; 90; 180, 184 and 188. The mean direction of each cluster is
/// its middle, because vectors count by direction and not by length.
TEST(SphericalKMeans, AreTheMiddlesOfBundles) {
  const at::Tensor rows =
      at::stack({at_angle(10, 3), at_angle(30, 0.1), at_angle(90, 7), at_angle(-180),
                 at_angle(-176, 5), at_angle(-172, 2), at::zeros({2}, at::kDouble)});
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    const SphericalKMeans means = spherical_k_means(rows, 3, seed);
    const auto found = angles(means);
    // A seed can end in a local maximum that joins 90 with 30 degrees or splits a cluster.
    if (std::abs(found[0] + 176) > 1e-9) continue;
    EXPECT_NEAR(found[1], 20, 1e-9);
    EXPECT_NEAR(found[2], 90, 1e-9);
    const double ten = std::cos(10 * std::numbers::pi / 180);
    const double four = std::cos(4 * std::numbers::pi / 180);
    EXPECT_NEAR(means.cosine, (2 * ten + 1 + 2 * four + 1) / 6, 1e-12);
    EXPECT_EQ(means.sizes.sum().item<std::int64_t>(), 6);  // the row of length 0 is in no cluster
    return;
  }
  FAIL() << "none of eight seeds found the three clusters";
}

/// Conditions of a result: each row's centre is the nearest one, and each centre is its rows' mean.
TEST(SphericalKMeans, HoldTheirConditions) {
  torch::manual_seed(3);
  const at::Tensor rows = torch::randn({300, 12}) + 0.5;
  const SphericalKMeans means = spherical_k_means(rows, 5, 7);
  const at::Tensor x = rows.to(at::kDouble) / rows.to(at::kDouble).norm(2, 1, true);
  const auto [cosine, nearest] = x.matmul(means.centres.t()).max(1);
  EXPECT_NEAR(means.cosine, cosine.mean().item<double>(), 1e-12);
  for (std::int64_t c = 0; c < 5; ++c) {
    const at::Tensor own = x.index_select(0, nearest.eq(c).nonzero().flatten());
    EXPECT_EQ(means.sizes[c].item<std::int64_t>(), own.size(0));
    EXPECT_GT(own.size(0), 0);
    const at::Tensor mean = own.sum(0) / own.sum(0).norm();
    EXPECT_LT((mean - means.centres[c]).abs().max().item<double>(), 1e-12);
  }
  const SphericalKMeans again = spherical_k_means(rows, 5, 7);
  EXPECT_TRUE(again.centres.equal(means.centres));
  EXPECT_TRUE(spherical_k_means(rows * 8, 5, 7).centres.equal(means.centres));
  EXPECT_FALSE(spherical_k_means(rows, 5, 8).centres.equal(means.centres));
  // The centres fit better than the first five rows do.
  EXPECT_GT(means.cosine, std::get<0>(x.matmul(x.slice(0, 0, 5).t()).max(1)).mean().item<double>());
}

TEST(SphericalKMeans, AsManyAsRowsAreTheRows) {
  const at::Tensor rows = at::stack({at_angle(0), at_angle(1), at_angle(120)});
  EXPECT_NEAR(spherical_k_means(rows, 3, 1).cosine, 1, 1e-12);
  EXPECT_NEAR(spherical_k_means(rows, 1, 1).centres.norm().item<double>(), 1, 1e-12);
}

TEST(SphericalKMeans, RefuseFewerDirectionsThanCentres) {
  const at::Tensor rows = at::stack({at_angle(20), at_angle(20, 3), at_angle(70)});
  EXPECT_EQ(spherical_k_means(rows, 2, 1).sizes.sum().item<std::int64_t>(), 3);
  EXPECT_THROW(spherical_k_means(rows, 3, 1), Error);
  EXPECT_THROW(spherical_k_means(at::zeros({4, 2}), 1, 1), Error);
}

}  // namespace
}  // namespace penstock
