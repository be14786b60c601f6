// Lory: blends the experts' weights once per segment of a sequence, in place of a choice of
// experts.
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/routers/registry.h"

namespace penstock::lory {

struct Config {
  std::int64_t segment_length = 256;

  template <class V>
  void visit(V& v) {
    v("segment_length", segment_length,
      {.help = "tokens that share one blend of experts; a divisor of the sequence length",
       .min = 1,
       .max = 1 << 20,
       .unit = "tokens"});
  }
  void refine(SelectorTraits& traits) const { traits.segment_length = segment_length; }
};

/// e_s = softmax of the logits of segment s's mean row, without padding. Segment s uses e_{s−1} of
/// the same sequence. The first segment uses its own e_s with a stopped gradient, so its tokens
/// depend on later tokens of that segment. Lory's batches of similar documents, and its one blend
/// of the whole prompt in generation, are not here.
class Lory : public Selector {
 public:
  Lory(const RouterShape& shape, const Config& config) : k_(shape.k), config_(config) {}

  at::Tensor rows(const at::Tensor& hidden, const RoutingContext& context) override {
    const std::int64_t length = config_.segment_length;
    PENSTOCK_CHECK(context.sequence_length > 0 && context.sequence_length % length == 0,
                   "model.router.lory.segment_length = ", length,
                   " must divide the sequence length, ", context.sequence_length);
    PENSTOCK_CHECK(hidden.size(0) % context.sequence_length == 0, "[lory] ", hidden.size(0),
                   " tokens are not whole sequences of ", context.sequence_length);
    const at::Tensor segments = hidden.reshape({hidden.size(0) / length, length, hidden.size(1)});
    const std::int64_t unpadded = context.unpadded_length;
    return unpadded > 0 && unpadded < context.sequence_length
               ? means_without_padding(segments, context)
               : segments.mean(1);  // [segments, d]
  }

  Plan select(const Scores& scores, const RoutingContext& context) override {
    const std::int64_t length = config_.segment_length,
                       per_sequence = context.sequence_length / length;
    const std::int64_t segments = scores.logits.size(0), experts = scores.logits.size(1);
    const at::Tensor own =
        scores.logits.softmax(1).view({segments / per_sequence, per_sequence, experts});
    const at::Tensor used =
        at::cat({own.slice(1, 0, 1).detach(), own.slice(1, 0, per_sequence - 1)}, 1);
    return make_merge_plan(used.reshape({segments, experts}), segments * length, length);
  }
  double nominal_k(const RoutingContext&) const override { return k_; }

 private:
  /// The means of segments [segments, length, d] over their tokens that are no padding; 0 for a
  /// segment of padding alone.
  static at::Tensor means_without_padding(const at::Tensor& segments,
                                          const RoutingContext& context) {
    const std::int64_t length = segments.size(1), per_sequence = context.sequence_length / length;
    const at::Tensor kept = at::arange(context.sequence_length,
                                       segments.options().dtype(at::kLong).requires_grad(false))
                                .lt(context.unpadded_length)
                                .to(segments.scalar_type())
                                .view({1, per_sequence, length, 1});
    const at::Tensor sums =
        segments.reshape({-1, per_sequence, length, segments.size(2)}).mul(kept).sum(2);
    return sums.div(kept.sum(2).clamp_min(1)).view({segments.size(0), segments.size(2)});
  }

  double k_;
  Config config_;
};

static const RegisterSelector<Lory, Config> registered{
    "lory",
    "blends expert weights per segment by the segment before",
    "Lory, arXiv:2405.03133, Eq. 3-5",
    {.causal = false,
     .order_matters = true,
     .merges = true,
     .unit_gates = true,
     .segment_length = Config().segment_length}};

}  // namespace penstock::lory
