// The capacity of experts: how many tokens an expert takes at most, which tokens it refuses, and
// gates over the requested experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace penstock {

/// ⌈factor·k·T/E⌉, the capacity of one expert: `factor` times its even share.
std::int64_t expert_capacity(double factor, double k, std::int64_t tokens, std::int64_t experts);

/// Throws Error if the selector's option `capacity` or `eval_capacity` is not above 0.
void check_capacity(const char* selector, double capacity, double eval_capacity);

/// Whether the capacity of one expert holds all tokens. A token requests an expert at most once.
bool never_full(double factor, double k, std::int64_t experts);

/// Keeps the first true entries of each column e, counted down the rows, for which
///   taken_e + (true entries of column e down to this row) ≤ capacity.
/// Earlier tokens come first, so that an entry does not depend on later tokens.
/// @param mask [T, E] bool;  @param taken [E] i64, capacity used already, or undefined for 0.
/// @return [T, E] bool.
at::Tensor within_capacity(const at::Tensor& mask, std::int64_t capacity,
                           const at::Tensor& taken = {});

/// The sum of `counts`. REQUIRES: `counts` is i64, contiguous and on the CPU.
std::int64_t total(const at::Tensor& counts);

/// The softmax over those entries of each row where `mask` is true; 0 elsewhere.
/// @param logits [T, E];  @param mask [T, E] bool.  @return [T, E].
/// REQUIRES: each row of the mask has a true entry. Gradient: logits.
at::Tensor softmax_among(const at::Tensor& logits, const at::Tensor& mask);

}  // namespace penstock
