// The base of selectors whose experts have a capacity.
#pragma once

#include <cstdint>

#include "penstock/routers/parts.h"
#include "penstock/routers/selectors/capacity.h"

namespace penstock {

/// The capacity of an expert in even shares k·T/E. A config with this member lists these keys among
/// its own.
struct CapacityKeys {
  double training = 1, evaluation = 1;

  template <class V>
  void visit(V& v) {
    v("capacity", training,
      {.help =
           "capacity of an expert as a multiple of the even load k·T/E of a micro-batch; above 0",
       .min = 0});
    v("eval_capacity", evaluation,
      {.help = "capacity outside training, in the same unit", .min = 0});
  }
};

/// The config has CapacityKeys as `capacity`.
template <class Config>
class CapacitySelector : public Selector {
 public:
  CapacitySelector(const RouterShape& shape, const Config& config)
      : shape_(shape), config_(config) {}

  double nominal_k(const RoutingContext& context) const override {
    return context.k > 0 ? static_cast<double>(context.k) : shape_.k;
  }
  bool refuses_none() const override {
    return never_full(config_.capacity.evaluation, shape_.k, shape_.experts);
  }

 protected:
  /// The capacity of one expert for tokens with these logits [T, E].
  std::int64_t places(const at::Tensor& logits, const RoutingContext& context) const {
    return expert_capacity(
        context.training ? config_.capacity.training : config_.capacity.evaluation,
        nominal_k(context), logits.size(0), logits.size(1));
  }

  RouterShape shape_;
  Config config_;
};

}  // namespace penstock
