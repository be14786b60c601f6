// The expert feed-forward for a few tokens, of weights in any type (stored_rows.h).
#pragma once

#include <functional>

#include "penstock/ops/ops.h"
#include "penstock/ops/stored_rows.h"

namespace penstock::ops::cpu {

/// What ExpertProblem has beside its weights; `inner` is f.
struct ExpertRowsProblem {
  at::Tensor hidden, weight, token, offsets;
  std::int64_t inner;
  Activation activation;
};

/// A matrix of one expert, with its bias or null.
struct ExpertMatrix {
  StoredRows rows;
  const float* bias = nullptr;
};
/// Those that feed the activation, the gate's first, and the one back.
struct ExpertMatrices {
  ExpertMatrix in[2], out;
};

/// @param matrices  of an expert; asked for those that have assignments.  @return [T, d]
at::Tensor few_rows_experts(const ExpertRowsProblem& problem,
                            const std::function<ExpertMatrices(std::int64_t)>& matrices);

}  // namespace penstock::ops::cpu
