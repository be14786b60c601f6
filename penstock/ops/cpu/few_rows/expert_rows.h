// The expert feed-forward for a few tokens, with weights of any type (stored_rows.h).
#pragma once

#include <functional>

#include "penstock/ops/ops.h"
#include "penstock/ops/stored_rows.h"

namespace penstock::ops::cpu {

/// The members of ExpertProblem without its weights. `inner` is f.
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
/// The matrices of one expert. `in` feeds the activation, the gate's matrix first.
struct ExpertMatrices {
  ExpertMatrix in[2], out;
};

/// @param matrices  gives the matrices of an expert; called only for experts with assignments.
/// @return [T, d]
at::Tensor few_rows_experts(const ExpertRowsProblem& problem,
                            const std::function<ExpertMatrices(std::int64_t)>& matrices);

}  // namespace penstock::ops::cpu
