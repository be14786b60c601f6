// The gated unit on a tile of rows, between two small products of the expert feed-forward.
#pragma once

#include <cstdint>

namespace penstock::ops::cpu {

/// h = silu(g) ⊙ u on [rows, columns].
void gate_forward(std::int64_t rows, std::int64_t columns, const float* g, const float* u,
                  std::int64_t gu_stride, float* h, std::int64_t h_stride);

/// With p = w_downᵀ·d_output (unweighted), for each row r of weight w_r:
///   h ← w_r·silu(g)·u;  d_weight_r += Σ silu(g)·u·p;  d_h = w_r·p;
///   d_u = d_h·silu(g);  d_g = d_h·u·σ(g)·(1 + g·(1 − σ(g)))
/// All tiles but g and u have the stride `columns`.
void gate_backward(std::int64_t rows, std::int64_t columns, const float* g, const float* u,
                   std::int64_t gu_stride, const float* p, const float* weight, float* d_g,
                   float* d_u, float* h, float* d_weight);

}  // namespace penstock::ops::cpu
