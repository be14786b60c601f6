#include "penstock/ops/cpu/expert_views.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::cpu {

ExpertViews::ExpertViews(const ExpertProblem& problem)
    : tokens(problem.tokens()),
      width(problem.width()),
      assignments(problem.assignments()),
      experts(problem.experts()),
      inner(problem.inner()),
      inputs(problem.inputs()) {
  const auto floats = [this](const at::Tensor& tensor) -> const float* {
    if (!tensor.defined() || tensor.scalar_type() != at::kFloat) return nullptr;
    return held_.emplace_back(tensor.contiguous()).data_ptr<float>();
  };
  const auto indices = [this](const at::Tensor& tensor) {
    return held_.emplace_back(tensor.contiguous()).data_ptr<std::int64_t>();
  };
  hidden = floats(problem.hidden);
  weight = floats(problem.weight);
  w_in = floats(problem.w_in);
  w_out = floats(problem.w_out);
  b_in = floats(problem.b_in);
  b_out = floats(problem.b_out);
  token = indices(problem.token);
  offsets = indices(problem.offsets);
  by_token = indices(problem.by_token);
  token_offsets = indices(problem.token_offsets);
}

std::vector<Group> groups(const ExpertViews& views) {
  const std::int64_t most = std::max<std::int64_t>(2 * views.tokens, 8192);
  std::vector<Group> result;
  for (std::int64_t e = 0; e < views.experts; ++e) {
    const bool fits =
        !result.empty() && views.offsets[e + 1] - views.offsets[result.back().first] <= most;
    if (fits)
      result.back().last = e + 1;
    else
      result.push_back({e, e + 1});
  }
  return result;
}

std::int64_t backward_parts(std::int64_t rows, std::int64_t all, std::int64_t most) {
  constexpr std::int64_t kShares = 16;
  return std::clamp<std::int64_t>(rows ? divide_up(kShares * rows, all) : 1, 1, most);
}

std::vector<std::int32_t> experts_of(const ExpertViews& views) {
  std::vector<std::int32_t> expert(views.assignments);
  for (std::int64_t e = 0; e < views.experts; ++e)
    std::fill(expert.begin() + views.offsets[e], expert.begin() + views.offsets[e + 1],
              static_cast<std::int32_t>(e));
  return expert;
}

}  // namespace penstock::ops::cpu
