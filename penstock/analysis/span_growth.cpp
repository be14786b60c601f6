#include "penstock/analysis/span_growth.h"

#include <torch/types.h>

namespace penstock::analysis {

SpanGrowth span_growth(const std::vector<Gating>& routers, const at::Tensor& tokens) {
  SpanGrowth out{.token_rank = std::vector<double>(routers.size(), 0),
                 .token_effective = std::vector<double>(routers.size(), 0)};
  std::vector<at::Tensor> weights;
  for (const Gating& router : routers) weights.push_back(router.weight);
  out.router = ranks_of_stacks(weights);
  const auto count = static_cast<double>(tokens.size(0));
  for (const at::Tensor& token : tokens.to(at::kCPU, at::kDouble).unbind(0)) {
    std::vector<at::Tensor> rows;
    for (const Gating& router : routers) rows.push_back(router.rows(token));
    const std::vector<Rank> ranks = ranks_of_stacks(rows);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      out.token_rank[i] += static_cast<double>(ranks[i].numerical) / count;
      out.token_effective[i] += ranks[i].effective / count;
    }
  }
  return out;
}

}  // namespace penstock::analysis
