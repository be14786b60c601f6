// How many tokens an expert takes at most, who goes without, and the gates of those requested.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace penstock {

/// ⌈factor·k·T/E⌉, the capacity of one expert where `factor` times the even share is allowed.
std::int64_t expert_capacity(double factor, double k, std::int64_t tokens, std::int64_t experts);

/// Throws Error for a `capacity` or `eval_capacity` of the selector's options that leaves experts
/// without any capacity.
void check_capacity(const char* selector, double capacity, double eval_capacity);

/// Whether an expert's capacity holds all tokens at once, of whom each requests it once at most.
bool never_full(double factor, double k, std::int64_t experts);

/// Keeps each column's first true entries, counted down the rows: those for which
///   taken_e + (true entries of column e down to this row) ≤ capacity.
/// Earlier tokens go first, so that a token's place depends on no later one.
/// @param mask [T, E] bool;  @param taken [E] i64, places gone already, or undefined.
/// @return [T, E] bool.
at::Tensor within_capacity(const at::Tensor& mask, std::int64_t capacity,
                           const at::Tensor& taken = {});

/// Sum of whole numbers on the CPU, i64 and contiguous.
std::int64_t total(const at::Tensor& counts);

/// Softmax over each row's entries where `mask` is true, 0 elsewhere.  Gradient: logits.
/// @param logits [T, E];  @param mask [T, E] bool, at least one true in a row.  @return [T, E].
at::Tensor softmax_among(const at::Tensor& logits, const at::Tensor& mask);

}  // namespace penstock
