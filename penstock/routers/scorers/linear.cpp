// The plain router: one matrix, optionally a bias, optionally never trained.
#include <torch/torch.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/routers/router.h"

namespace penstock::linear {

struct Config {
  bool bias = false;
  bool frozen = false;

  template <class V>
  void visit(V& v) {
    v("bias", bias, {.help = "add a bias to the logits"});
    v("frozen", frozen, {.help = "keep the initial weights (SMoE-Dropout)"});
  }
};

/// logits = hidden · Wᵀ + b
class Linear : public Scorer {
 public:
  Linear(const RouterShape& shape, const Config& config) {
    weight_ =
        register_parameter("weight", at::empty({shape.experts, shape.d_model}), !config.frozen);
    if (config.bias) bias_ = register_parameter("bias", at::empty({shape.experts}), !config.frozen);
  }

  Scores score(const at::Tensor& hidden, const RoutingContext&) override {
    return {.logits = ops::linear(hidden, weight_, optional_bias())};  // [T, E]
  }
  FoldedScorer fold() const override { return {.weight = weight_, .bias = bias_}; }
  void initialize(double std, at::Generator generator) override {
    torch::NoGradGuard no_grad;
    weight_.normal_(0, std, generator);
    if (bias_.defined()) bias_.zero_();
  }

 private:
  std::optional<at::Tensor> optional_bias() const {
    return bias_.defined() ? std::optional(bias_) : std::nullopt;
  }
  at::Tensor weight_;  // [E, d]
  at::Tensor bias_;    // [E]
};

static const RegisterScorer<Linear, Config> registered{
    "linear",
    "one trained matrix, optionally with a bias or frozen",
    "Shazeer et al., arXiv:1701.06538, Eq. 3 without noise",
    {.foldable = true}};

}  // namespace penstock::linear
