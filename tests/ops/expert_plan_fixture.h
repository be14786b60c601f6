// Plans for the expert operator's tests. The test, and no router, chooses each token's experts.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace penstock::testing {

struct TestPlan {
  at::Tensor token, offsets, by_token, token_offsets;
  std::int64_t assignments() const { return token.size(0); }
};

/// Makes a plan with an assignment (e, t) where takes(e, t), sorted by expert, then by token.
inline TestPlan make_test_plan(std::int64_t tokens, std::int64_t experts,
                               const std::function<bool(std::int64_t, std::int64_t)>& takes) {
  std::vector<std::int64_t> token, offsets{0}, by_token, token_offsets{0};
  std::vector<std::vector<std::int64_t>> of_token(tokens);
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      if (!takes(e, t)) continue;
      of_token[t].push_back(static_cast<std::int64_t>(token.size()));
      token.push_back(t);
    }
    offsets.push_back(static_cast<std::int64_t>(token.size()));
  }
  for (const auto& list : of_token) {
    by_token.insert(by_token.end(), list.begin(), list.end());
    token_offsets.push_back(static_cast<std::int64_t>(by_token.size()));
  }
  const auto tensor = [](const std::vector<std::int64_t>& values) {
    return torch::tensor(values, torch::kLong);
  };
  return {tensor(token), tensor(offsets), tensor(by_token), tensor(token_offsets)};
}

}  // namespace penstock::testing
