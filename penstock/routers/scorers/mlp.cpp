// A two-layer perceptron as the router.
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/ops/ops.h"
#include "penstock/ops/optional_tensor.h"
#include "penstock/ops/pointwise.h"
#include "penstock/routers/registry.h"

namespace penstock::mlp {

enum class Activation { gelu, relu, tanh };
constexpr std::array<std::string_view, 3> words(Activation) { return {"gelu", "relu", "tanh"}; }

struct Config {
  std::int64_t hidden = 0;
  Activation activation = Activation::gelu;
  bool bias = false;

  template <class V>
  void visit(V& v) {
    v("hidden", hidden,
      {.help = "width of the hidden layer; 0: d_model", .min = 0, .max = 1 << 20});
    v("activation", activation, {.help = "activation function between the layers"});
    v("bias", bias, {.help = "add biases to both layers"});
  }
};

/// logits = act(hidden · W₁ᵀ + b₁) · W₂ᵀ + b₂.  Both matrices N(0, std²), biases 0.
class Mlp : public Scorer {
 public:
  Mlp(const RouterShape& shape, const Config& config) : activation_(config.activation) {
    const std::int64_t width = config.hidden > 0 ? config.hidden : shape.d_model;
    w1_ = register_parameter("w1", at::empty({width, shape.d_model}));
    w2_ = register_parameter("w2", at::empty({shape.experts, width}));
    if (!config.bias) return;
    b1_ = register_parameter("b1", at::empty({width}));
    b2_ = register_parameter("b2", at::empty({shape.experts}));
  }

  Scores score(const at::Tensor& hidden, const RoutingContext&) override {
    const at::Tensor sums = ops::linear(hidden, w1_, ops::if_defined(b1_));  // [T, width]
    return {.logits = ops::linear(act(sums), w2_, ops::if_defined(b2_))};    // [T, E]
  }
  void initialize(double std, const InitialDraws& draws) override {
    torch::NoGradGuard no_grad;
    draws.normal("w1", w1_, std);
    draws.normal("w2", w2_, std);
    for (at::Tensor bias : {b1_, b2_})
      if (bias.defined()) bias.zero_();
  }
  bool scale_logits(double factor) override {
    torch::NoGradGuard no_grad;
    w2_.mul_(factor);
    if (b2_.defined()) b2_.mul_(factor);
    return true;
  }
  std::set<std::string> rows_by_expert() const override { return {"w2", "b2"}; }
  /// Values kept: the activation's output, which the second product reads, and for GELU its input.
  std::int64_t kept_per_token() const override {
    return (activation_ == Activation::gelu ? 2 : 1) * w1_.size(0);
  }
  std::int64_t multiply_adds_per_token() const override { return w1_.numel() + w2_.numel(); }

 private:
  at::Tensor act(const at::Tensor& x) const {
    switch (activation_) {
      case Activation::gelu:
        return ops::pointwise_alike(x, [](const at::Tensor& z) { return at::gelu(z); });
      case Activation::relu:
        return at::relu(x);
      case Activation::tanh:
        break;
    }
    return ops::pointwise_alike(x, [](const at::Tensor& z) { return at::tanh(z); });
  }
  Activation activation_;
  at::Tensor w1_, w2_;  // [width, d], [E, width]
  at::Tensor b1_, b2_;  // [width], [E]
};

static const RegisterScorer<Mlp, Config> registered{
    "mlp",
    "a perceptron with one hidden layer",
    "the MLP baseline of the Router Upcycling paper",
    {}};

}  // namespace penstock::mlp
