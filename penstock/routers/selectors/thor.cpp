// THOR's choice: experts at random, without a router. A training step has two passes, and the
// trainer's objective includes their disagreement. This part gives the number of passes and the
// weight of the disagreement.
#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include "penstock/base/random.h"
#include "penstock/routers/draws.h"
#include "penstock/routers/registry.h"

namespace penstock::thor {

enum class Inference { token, sequence, batch };
constexpr std::array<std::string_view, 3> words(Inference) {
  return {"token", "sequence", "batch"};
}

struct Config {
  Inference inference = Inference::token;
  double consistency = 5;

  template <class V>
  void visit(V& v) {
    v("inference", inference, {.help = "unit outside training that gets one draw of an expert"});
    v("consistency", consistency,
      {.help = "weight of the disagreement between the two passes of a training step",
       .min = 0,
       .coefficient = true});
  }
  void refine(SelectorTraits& traits) const { traits.disagreement = consistency; }
};

/// Training: one expert for all tokens of the pass, uniform over E, with weight 1. Outside
/// training: one expert for each token, sequence or batch (`inference`). Without a generator in the
/// context these draws depend only on the layer and the position in the batch, so that evaluations
/// repeat. HyperRouter's code uses the top k of U(0, 1) logits instead.
class Thor : public Selector {
 public:
  Thor(const RouterShape& shape, const Config& config) : layer_(shape.layer), config_(config) {}

  Plan select(const Scores& scores, const RoutingContext& context) override {
    const at::Tensor& logits = scores.logits;  // [T, E], read for its shape
    const std::int64_t tokens = logits.size(0), experts = logits.size(1);
    const at::Tensor expert = draws(tokens, context).mul(experts).floor().to(at::kLong);
    at::Tensor mask = at::zeros(logits.sizes(), logits.options().dtype(at::kBool));
    mask.scatter_(1, expert.clamp_max(experts - 1).unsqueeze(1).to(logits.device()), true);
    return make_plan(at::ones_like(logits), mask);
  }
  double nominal_k(const RoutingContext&) const override { return 1; }

 private:
  /// The draws for all tokens [T] from U(0, 1), on the CPU.
  at::Tensor draws(std::int64_t tokens, RoutingContext context) const {
    const at::Tensor like = at::empty({0}, at::kDouble);
    if (context.training || config_.inference == Inference::batch)
      return draw_uniform({1}, like, repeatable(context)).expand({tokens});
    if (config_.inference == Inference::token || context.sequence_length <= 0)
      return draw_uniform({tokens}, like, repeatable(context));
    const std::int64_t length = context.sequence_length;
    const std::int64_t sequences = (tokens + length - 1) / length;
    return draw_uniform({sequences}, like, repeatable(context))
        .repeat_interleave(length)
        .slice(0, 0, tokens);
  }
  RoutingContext repeatable(RoutingContext context) const {
    if (!context.training && !context.generator)
      context.generator = at::detail::createCPUGenerator(mix64(static_cast<std::uint64_t>(layer_)));
    return context;
  }

  std::int64_t layer_;
  Config config_;
};

static const RegisterSelector<Thor, Config> registered{
    "thor",
    "one expert at random for the whole pass; at inference one for each token",
    "THOR, arXiv:2110.04260, section 3",
    {.stochastic = true,
     .trainable = false,
     .ignores_logits = true,
     .unit_gates = true,
     .forward_passes = 2}};

}  // namespace penstock::thor
