// LocMoE's scorer: the means of E groups of the token's features are its logits.
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/routers/registry.h"

namespace penstock::grouped_mean {

struct Config {
  bool relu = false;

  template <class V>
  void visit(V& v) {
    v("relu", relu, {.help = "set negative logits to zero, as in LocMoE"});
  }
  void refine(ScorerTraits& traits) const { traits.foldable = !relu; }
};

/// z_i = mean of the features in group i = [⌊i·d/E⌋, ⌈(i+1)·d/E⌉); with `relu`, max(z_i, 0).
/// If E divides d, the E groups are equal, as published. Otherwise neighbouring groups overlap.
/// No parameters: the token's features alone decide its logits. Gradient: hidden. Source: LocMoE,
/// arXiv:2401.13920, the grouped average pooling layer, there with the ReLU.
class GroupedMean : public Scorer {
 public:
  GroupedMean(const RouterShape& shape, const Config& config)
      : d_model_(shape.d_model), relu_(config.relu) {
    pooling_ = at::zeros({shape.experts, d_model_}, at::kDouble);
    for (std::int64_t i = 0; i < shape.experts; ++i) {
      const std::int64_t begin = i * d_model_ / shape.experts,
                         end = ((i + 1) * d_model_ + shape.experts - 1) / shape.experts;
      pooling_[i].slice(0, begin, end).fill_(1 / static_cast<double>(end - begin));
    }
  }

  Scores score(const at::Tensor& hidden, const RoutingContext&) override {
    const at::Tensor means = ops::linear(hidden, pooling_.to(hidden.options()));  // [T, E]
    return {.logits = relu_ ? at::relu(means) : means};
  }
  FoldedScorer fold() const override {
    PENSTOCK_ASSERT(!relu_, "a grouped mean with a ReLU does not fold");
    return {.weight = pooling_};
  }
  void initialize(double, const InitialDraws&) override {}
  /// Each feature of a token is added once.
  std::int64_t multiply_adds_per_token() const override { return d_model_; }

 private:
  std::int64_t d_model_;
  bool relu_;
  at::Tensor pooling_;  // [E, d] f64
};

static const RegisterScorer<GroupedMean, Config> registered{
    "grouped-mean",
    "means of groups of the token's features, without parameters",
    "LocMoE, arXiv:2401.13920",
    {.trainable = false, .foldable = true}};

}  // namespace penstock::grouped_mean
