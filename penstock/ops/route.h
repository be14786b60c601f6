// Kernels of the routing operators. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "penstock/ops/ops.h"

namespace penstock::ops {

std::string describe(const Route& route);
double bytes_of(const Route& route);

/// The gradients of a route's outputs; undefined if an output has none.
struct RouteGradients {
  at::Tensor weight;            ///< [A]
  at::Tensor mean_probability;  ///< route_topk: [E]
  at::Tensor logsumexp;         ///< route_topk: [T]
  at::Tensor gate_sums;         ///< route_relu: [E]
};
std::string describe(const RouteGradients& grads);
double bytes_of(const RouteGradients& grads);

namespace reference {
/// Returns a route without the weight and the sums.
Route route_mask(const at::Tensor& mask);
Route route_topk(const at::Tensor& logits, std::int64_t k, bool over_kept);
/// The gradient [T, E] of the logits. Reads the route's indices, weight and logsumexp.
at::Tensor route_topk_backward(const RouteGradients& grads, const at::Tensor& logits,
                               const Route& route, bool over_kept);
Route route_relu(const at::Tensor& logits);
at::Tensor route_relu_backward(const RouteGradients& grads, const at::Tensor& logits,
                               const Route& route);
}  // namespace reference

namespace cpu {
std::string declines_route_mask(const at::Tensor& mask);
Route route_mask(const at::Tensor& mask);
/// The bits of this function and of the three below do not depend on the number of threads.
Route route_topk(const at::Tensor& logits, std::int64_t k, bool over_kept);
at::Tensor route_topk_backward(const RouteGradients& grads, const at::Tensor& logits,
                               const Route& route, bool over_kept);
Route route_relu(const at::Tensor& logits);
at::Tensor route_relu_backward(const RouteGradients& grads, const at::Tensor& logits,
                               const Route& route);
}  // namespace cpu

}  // namespace penstock::ops
