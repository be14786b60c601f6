// A numerical check of the argument in HyperRouter's section 3.3: the two terms of a MoE layer's
// Jacobian, and the rank of the second term.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "penstock/analysis/gating.h"

namespace penstock::analysis {

/// ∂y/∂x of y = Σ_j g_j(x) E_j(x) at one token, all [d, d], f64.
struct LayerJacobian {
  at::Tensor whole;         ///< by autograd
  at::Tensor experts;       ///< J₁ = Σ_j g_j ∂E_j/∂x, by autograd with constant gates
  at::Tensor gates;         ///< J₂ = Σ_j E_j ⊗ ∂g_j/∂x, by autograd with constant experts
  at::Tensor gates_closed;  ///< J₂ by the closed form of Gating::rows
  at::Tensor gate_rows;     ///< [a, d], ∂g_j/∂x by autograd
  at::Tensor gate_rows_closed;  ///< [a, d]
};

/// A MoE layer in evaluation mode as a function of single tokens, with parameters copied to f64.
class RoutedLayer {
 public:
  /// REQUIRES: declines_gating() returns "" for the options' router.
  /// @param k  replaces the router's number of active experts per token; ignored by relu
  RoutedLayer(const MoeOptions& options, MoeLayer& layer,
              std::optional<std::int64_t> k = std::nullopt);

  const Gating& gating() const { return gating_; }
  /// @param x [d], any floating dtype
  LayerJacobian jacobian(const at::Tensor& x);
  /// The layer's output for each row.  @param x [n, d] f64.  @return [n, d]
  at::Tensor forward(const at::Tensor& x);

 private:
  Plan plan(const at::Tensor& x);

  Gating gating_;
  std::shared_ptr<Selector> selector_;
  std::shared_ptr<Experts> experts_;
};

/// Summary of the Jacobians at several tokens.
struct JacobianSummary {
  std::int64_t k = 0;                            ///< kept experts; 0 if the number varies
  std::int64_t tokens = 0;                       ///< tokens measured
  std::int64_t least = 0, most = 0;              ///< smallest and largest rank of J₂ at a token
  std::int64_t bound_least = 0, bound_most = 0;  ///< the same for Gating::rank_bound
  std::int64_t together = 0, span_bound = 0;  ///< rank of all tokens' stacked ∂g/∂x, its bound
  double share = 0;                           ///< mean ‖J₂‖_F / (‖J₁‖_F + ‖J₂‖_F)
  double sum_error = 0;                       ///< largest ‖J − J₁ − J₂‖_F / ‖J‖_F
  double closed_error = 0;  ///< largest ‖J₂ − closed form‖_F / ‖J₂‖_F
  bool bounds_hold = true;  ///< rank ≤ bound at every token and for all together
};

/// @param tokens [n, d]
JacobianSummary summarize_jacobians(RoutedLayer& layer, const at::Tensor& tokens);

}  // namespace penstock::analysis
