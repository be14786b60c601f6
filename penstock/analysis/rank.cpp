#include "penstock/analysis/rank.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

namespace penstock::analysis {

Rank rank_of(const at::Tensor& matrix, double precision) {
  if (matrix.numel() == 0) return {};
  const at::Tensor sigma =
      at::linalg_svdvals(matrix.detach().to(at::kCPU, at::kDouble));  // descending
  const double largest = sigma[0].item<double>();
  if (largest == 0) return {};
  const double noise =
      static_cast<double>(std::max(matrix.size(0), matrix.size(1))) * precision * largest;
  const at::Tensor p = sigma / sigma.sum();
  return {.numerical = sigma.gt(noise).sum().item<std::int64_t>(),
          .effective = std::exp(-at::xlogy(p, p).sum().item<double>())};
}

std::vector<Rank> ranks_of_stacks(const std::vector<at::Tensor>& matrices, double precision) {
  std::vector<Rank> out;
  for (std::size_t n = 1; n <= matrices.size(); ++n)
    out.push_back(rank_of(at::cat({matrices.data(), n}), precision));
  return out;
}

}  // namespace penstock::analysis
