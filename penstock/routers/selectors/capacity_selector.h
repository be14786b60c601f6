// What selectors share whose experts take so many tokens and no more.
#pragma once

#include <cstdint>

#include "penstock/routers/router.h"
#include "penstock/routers/selectors/capacity.h"

namespace penstock {

/// The config has `capacity` and, outside training, `eval_capacity`, in even shares k·T/E.
template <class Config>
class CapacitySelector : public Selector {
 public:
  CapacitySelector(const RouterShape& shape, const Config& config)
      : shape_(shape), config_(config) {}

  double nominal_k(const RoutingContext& context) const override {
    return context.k > 0 ? static_cast<double>(context.k) : shape_.k;
  }
  bool refuses_none() const override {
    return never_full(config_.eval_capacity, shape_.k, shape_.experts);
  }

 protected:
  /// Tokens that an expert takes of those with these logits, [T, E].
  std::int64_t places(const at::Tensor& logits, const RoutingContext& context) const {
    return expert_capacity(context.training ? config_.capacity : config_.eval_capacity,
                           nominal_k(context), logits.size(0), logits.size(1));
  }

  RouterShape shape_;
  Config config_;
};

}  // namespace penstock
