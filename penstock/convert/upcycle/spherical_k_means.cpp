#include "penstock/convert/upcycle/spherical_k_means.h"

#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/base/random.h"

namespace penstock {
namespace {

constexpr int kMostRounds = 100;
constexpr double kSame = 1e-9;  // directions with a smaller 1 − cosine are equal

/// The rows scaled to length 1, without rows of length 0.
at::Tensor unit_rows(const at::Tensor& rows) {
  const at::Tensor x = rows.to(at::kCPU, at::kDouble);
  const at::Tensor norm = x.norm(2, 1);  // [n]
  const at::Tensor kept = norm.gt(0).nonzero().flatten();
  return x.index_select(0, kept) / norm.index_select(0, kept).unsqueeze(1);
}

/// A number in [0, 1).
double uniform(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(random_bits(seed, 0, index) >> 11) * 0x1p-53;
}

/// The first row at which the running sum of the weights exceeds that share of their total.
std::int64_t at_share(const at::Tensor& weights, double share) {
  const at::Tensor sums = weights.cumsum(0);
  const auto wanted = share * sums[-1].item<double>();
  return sums.le(wanted).sum().clamp_max(weights.size(0) - 1).item<std::int64_t>();
}

/// Rows as initial centres, [C, d].
at::Tensor first_centres(const at::Tensor& x, std::int64_t count, std::uint64_t seed) {
  std::vector<at::Tensor> out;
  at::Tensor far = at::ones({x.size(0)}, at::kDouble);  // 1 − cosine to the nearest centre
  for (std::int64_t i = 0; i < count; ++i) {
    PENSTOCK_CHECK(x.size(0) > 0 && far.max().item<double>() > kSame, "there are ", i,
                   " different directions among ", x.size(0), " rows, and ", count,
                   " centres are wanted");
    out.push_back(x[at_share(far, uniform(seed, static_cast<std::uint64_t>(i)))]);
    const at::Tensor distance = (1 - x.mv(out.back())).clamp_min(0);
    far = i == 0 ? distance : far.minimum(distance);
    far = far.masked_fill(far.le(kSame), 0);
  }
  return at::stack(out);
}

/// The mean of each centre's rows, scaled to length 1. A centre without rows gets the farthest row
/// that no other centre has taken.
at::Tensor means_of_rows(const at::Tensor& x, const at::Tensor& nearest, const at::Tensor& cosine,
                         std::int64_t count) {
  const at::Tensor members = at::one_hot(nearest, count).to(at::kDouble).t();  // [C, n]
  at::Tensor sums = members.matmul(x);
  at::Tensor left = cosine.clone();
  for (std::int64_t c = 0; c < count; ++c) {
    if (sums[c].norm().item<double>() > 0) continue;
    const std::int64_t row = left.argmin().item<std::int64_t>();
    sums[c].copy_(x[row]);
    left[row] = 2;
  }
  return sums / sums.norm(2, 1, /*keepdim=*/true);
}

}  // namespace

SphericalKMeans spherical_k_means(const at::Tensor& rows, std::int64_t count, std::uint64_t seed) {
  const at::Tensor x = unit_rows(rows);
  SphericalKMeans out{.centres = first_centres(x, count, seed)};
  at::Tensor nearest;
  for (int round = 0; round < kMostRounds; ++round) {
    auto [cosine, index] = x.matmul(out.centres.t()).max(1);
    out.cosine = cosine.mean().item<double>();
    const bool settled = nearest.defined() && nearest.equal(index);
    nearest = index;
    if (settled) break;
    out.centres = means_of_rows(x, nearest, cosine, count);
  }
  out.sizes = at::bincount(nearest, {}, count);
  return out;
}

}  // namespace penstock
