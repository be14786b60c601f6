// The base of selectors whose experts have a capacity.
#pragma once

#include <cstdint>

#include "penstock/routers/router.h"
#include "penstock/routers/selectors/capacity.h"

namespace penstock {

/// The config has `capacity` for training and `eval_capacity` for passes outside training, both in
/// even shares k·T/E.
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
  /// The capacity of one expert for tokens with these logits [T, E].
  std::int64_t places(const at::Tensor& logits, const RoutingContext& context) const {
    return expert_capacity(context.training ? config_.capacity : config_.eval_capacity,
                           nominal_k(context), logits.size(0), logits.size(1));
  }

  RouterShape shape_;
  Config config_;
};

}  // namespace penstock
