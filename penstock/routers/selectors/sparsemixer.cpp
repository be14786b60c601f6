// SparseMixer-v2: training draws experts one after another, and estimates the gradient of the draw.
#include <torch/types.h>

#include <limits>

#include "penstock/ops/top_mask.h"
#include "penstock/routers/draws.h"
#include "penstock/routers/registry.h"

namespace penstock::sparsemixer {

struct Config {
  double jitter = 0.01;

  template <class V>
  void visit(V& v) {
    v("jitter", jitter,
      {.help = "ε: experts whose logit is more than 2ε below the highest, relative to the larger "
               "absolute value of the two, are not drawn",
       .min = 0});
  }
  void check(const RouterShape& shape) const { check_whole_k(shape, "sparsemixer-v2"); }
};

/// Repeats k times, each time without the experts taken before:
///   m = max z,  expert e is out if (m − z_e) / max(|z_e|, m) > 2ε,
///   p = softmax(z over the experts left),
///   s ~ p in training (Gumbel-max), s = argmax z outside training,
///   weight = B·p_s.  In training B = 1 if s = argmax z or u > 3/4, u ~ U(0, 1), else B = 1/3.
///   Outside training B = 1.
/// Gradient: that of p_s, without B. For s other than the argmax the mean over u of the gradients
/// at p_s and at p_s/3 is Heun's third-order rule, f(p) − f(0) ≈ p·(f'(p) + 3·f'(p/3))/4. Source:
/// GRIN, arXiv:2409.12136, section 2; its authors' router for k and ε.
class SparseMixer : public Selector {
 public:
  SparseMixer(const RouterShape& shape, const Config& config) : shape_(shape), config_(config) {}

  Plan select(const Scores& scores, const RoutingContext& context) override {
    at::Tensor taken = at::zeros(scores.logits.sizes(), scores.logits.options().dtype(at::kBool));
    at::Tensor gates = at::zeros_like(scores.logits);  // [T, E]
    for (double i = 0; i < nominal_k(context); ++i) {
      const auto [chosen, gate] = next(scores.logits, taken, context);
      gates = at::where(chosen, gate, gates);
      taken = taken.logical_or(chosen);
    }
    return make_plan(gates, taken);
  }
  double nominal_k(const RoutingContext& context) const override {
    return context.k > 0 ? static_cast<double>(context.k) : shape_.k;
  }

 private:
  struct Choice {
    at::Tensor chosen;  // [T, E] bool, one expert of each token
    at::Tensor gate;    // [T, E], that expert's weight
  };

  Choice next(const at::Tensor& logits, const at::Tensor& taken,
              const RoutingContext& context) const {
    constexpr double kOut = -std::numeric_limits<double>::infinity();
    const at::Tensor z = logits.detach();
    const at::Tensor left = z.masked_fill(taken, kOut);
    const at::Tensor highest = left.amax(1, /*keepdim=*/true);  // [T, 1]
    const at::Tensor far = ((highest - z) / z.abs().maximum(highest)).gt(2 * config_.jitter);
    const at::Tensor out = taken.logical_or(far);
    const at::Tensor p = logits.masked_fill(out, kOut).softmax(1);
    const at::Tensor best = ops::top_mask(left, 1);
    if (!context.training) return {best, p};
    // A draw may be 0. Its logarithm would exclude an expert that may be the last one left.
    const at::Tensor drawn =
        draw_uniform(z.sizes(), z, context).clamp_min(std::numeric_limits<float>::min());
    const at::Tensor gumbel = drawn.log().neg().log().neg();
    const at::Tensor chosen = ops::top_mask((z + gumbel).masked_fill(out, kOut), 1);
    const at::Tensor whole =
        best.logical_or(draw_uniform({z.size(0), 1}, z, context).gt(0.75));  // [T, E]
    const at::Tensor short_of = p.detach().mul(2.0 / 3).masked_fill(whole, 0);
    return {chosen, p - short_of};
  }

  RouterShape shape_;
  Config config_;
};

static const RegisterSelector<SparseMixer, Config> registered{
    "sparsemixer-v2",
    "experts drawn by softmax in training, the highest logits outside; an estimated gradient",
    "SparseMixer-v2 of GRIN, arXiv:2409.12136",
    {.order_matters = true,
     .stochastic = true,
     .has_k = true,
     .takes_highest = true,
     .estimates_gradient = true}};

}  // namespace penstock::sparsemixer
