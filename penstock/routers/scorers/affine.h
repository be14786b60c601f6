// The scorer that is one matrix and a bias; the base of several scorers.
#pragma once

#include "penstock/routers/parts.h"

namespace penstock {

/// logits = hidden · Wᵀ + b.  Parameters: `weight` [E, d], which starts as N(0, std²), and with a
/// bias `bias` [E], which starts at 0.
class AffineScorer : public Scorer {
 public:
  AffineScorer(const RouterShape& shape, bool bias, bool frozen);

  Scores score(const at::Tensor& hidden, const RoutingContext& context) override;
  FoldedScorer fold() const override;
  void initialize(double std, const InitialDraws& draws) override;
  bool scale_logits(double factor) override;
  std::set<std::string> rows_by_expert() const override;
  std::int64_t multiply_adds_per_token() const override;

 protected:
  /// @param hidden [T, d].  @return [T, E]
  at::Tensor logits(const at::Tensor& hidden) const;

  at::Tensor weight_;  // [E, d]
  at::Tensor bias_;    // [E] or undefined
};

}  // namespace penstock
