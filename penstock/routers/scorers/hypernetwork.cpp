// HyperRouter's scorer: a plain router whose weights come from a frozen network applied to a small
// trained embedding.
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/optional_tensor.h"
#include "penstock/routers/draws.h"
#include "penstock/routers/option_notes.h"
#include "penstock/routers/registry.h"

namespace penstock::hypernetwork {

enum class Generate { whole, rows };
constexpr std::array<std::string_view, 2> words(Generate) { return {"whole", "rows"}; }

enum class Form { relu, linear };
constexpr std::array<std::string_view, 2> words(Form) { return {"relu", "linear"}; }

enum class Start { authors, hyperfan_in };
constexpr std::array<std::string_view, 2> words(Start) { return {"authors", "hyperfan-in"}; }

struct Config {
  Form form = Form::relu;
  std::int64_t embedding = 256;
  std::int64_t hidden = 256;
  bool bias = true;
  Generate generate = Generate::whole;
  Start init = Start::authors;
  bool share = false;
  bool train_network = false;
  double dropout = 0;
  double l2 = 0;

  template <class V>
  void visit(V& v) {
    v("form", form,
      {.help = "relu: the network has two layers; linear: one matrix, so that the router stays in "
               "a random subspace with the embedding's dimension"});
    v("embedding", embedding, {.help = "width of the trained embedding", .min = 1, .max = 65536});
    v("hidden", hidden,
      {.help = "relu: width of the network's hidden layer", .min = 1, .max = 65536});
    v("bias", bias, {.help = "also generate a bias of the router"});
    v("generate", generate,
      {.help = "whole: one embedding gives the whole router; rows: each expert has an embedding "
               "that gives its row, and all share one network"});
    v("init", init,
      {.help = "initial weights of the network. authors: as in other routers; hyperfan-in: initial "
               "logits have the variance of a token's entries"});
    v("share", share, {.help = "one network for all layers; each layer has its own embedding"});
    v("train_network", train_network, {.help = "also train the network; the paper freezes it"});
    v("dropout", dropout,
      {.help = "relu: dropout of the network's hidden units in training", .min = 0, .max = 0.99});
    v("l2", l2,
      {.help = "factor of the loss Σ W² + Σ b² over the generated router",
       .min = 0,
       .coefficient = true});
  }
  void check(const RouterShape&) const {
    PENSTOCK_CHECK(form == Form::relu || dropout == 0,
                   "model.router.hypernetwork.dropout drops hidden units, of which form = "
                   "\"linear\" has none; leave one of the two out");
  }
  std::vector<OptionNote> notes(const RouterShape&, std::int64_t) const {
    if (form == Form::relu || hidden == Config().hidden) return {};
    return {{"hidden", nothing_reads(concat("model.router.hypernetwork.hidden = ", hidden),
                                     "form = \"linear\" has no hidden layer")}};
  }
  void refine(ScorerTraits& traits) const { traits.shared_by_layers = share; }
  /// h, the number of units that each output of the network sums over.
  std::int64_t units() const { return form == Form::relu ? hidden : embedding; }
};

/// relu: Φ(e) = relu(e · W₁ᵀ + b₁) · W₂ᵀ + b₂.  linear: Φ(e) = e · W₂ᵀ; its units are e itself.
/// Parameters: w1 [h, m], b1 [h], w2 [out, h], b2 [out]; a linear network has only w2 [out, m].
/// They are frozen without `train_network`.
class Network : public torch::nn::Module {
 public:
  Network(const Config& config, std::int64_t out) {
    const bool trained = config.train_network;
    if (config.form == Form::relu) {
      w1_ = register_parameter("w1", at::empty({config.hidden, config.embedding}), trained);
      b1_ = register_parameter("b1", at::empty({config.hidden}), trained);
      b2_ = register_parameter("b2", at::empty({out}), trained);
    }
    w2_ = register_parameter("w2", at::empty({out, config.units()}), trained);
  }

  /// The units [n, h] of embeddings [n, m].
  at::Tensor units(const at::Tensor& embedding) const {
    return w1_.defined() ? at::relu(ops::linear(embedding, w1_, b1_)) : embedding;
  }
  /// The outputs [n, out] of units [n, h].
  at::Tensor output(const at::Tensor& units) const {
    return ops::linear(units, w2_, ops::if_defined(b2_));
  }

  void initialize(double std1, double std2, const InitialDraws& draws) {
    draws.normal("w2", w2_, std2);
    if (!w1_.defined()) return;
    draws.normal("w1", w1_, std1);
    b1_.zero_();
    b2_.zero_();
  }
  void scale_output(double factor) {
    w2_.mul_(factor);
    if (b2_.defined()) b2_.mul_(factor);
  }
  /// The rows of W₂ by expert and entry of its row and bias: [E, d + bias, h].
  at::Tensor rows(std::int64_t entries) const { return w2_.view({-1, entries, w2_.size(1)}); }

 private:
  at::Tensor w1_, b1_, b2_;  // undefined if linear
  at::Tensor w2_;
};

/// logits = hidden · Wᵀ + b,  [W b] = Φ(e) as [E, d + 1]; the last column is the bias.
///
/// Parameters: `embedding` e [1, m] ("rows": [E, m]) ~ N(0, 1), trained; `network`: see Network.
/// Every training pass generates the router, with gradient to e. Under inference (no training, and
/// gradients disabled) the router is kept until a parameter changes or the module's mode is set.
///
/// init "authors": Φ's matrices N(0, std²), biases 0, as in the authors' code. There std = 0.02 and
/// m = h = 256 give router weights of standard deviation 0.072, not std.
/// init "hyperfan-in" (Chang et al., ICLR 2020, Eq. for fan-in with a generated bias): the first
/// layer N(0, 2/m); the entries of W₂ N(0, 1/((1 + B)·d·h)) for weights and N(0, 1/(2h)) for
/// biases. B = 1 with a bias, otherwise 0. Logits of tokens with unit variance then have unit
/// variance. The router's softmax is treated as linear. For form "linear" h = m, and there is no
/// first layer.
///
/// Form "linear" is the control without HyperRouter's network: [W b] = P·e with P frozen. The
/// router is trained in a random subspace of dimension m.
///
/// The paper does not define "coordinate-wise" generation; "rows" generates one expert's weights at
/// a time. Gradient: hidden, e, and the network if it is trained. Source: HyperRouter,
/// arXiv:2312.07035, Eq. 2 and appendix C.1; authors' code for bias and init.
class Hypernetwork : public Scorer {
 public:
  Hypernetwork(const RouterShape& shape, const Config& config)
      : config_(config), experts_(shape.experts), width_(shape.d_model) {
    const bool rows = config.generate == Generate::rows;
    embedding_ =
        register_parameter("embedding", at::empty({rows ? experts_ : 1, config.embedding}));
    network_ = std::make_shared<Network>(config, rows ? entries() : experts_ * entries());
    register_module("network", network_);
  }

  Scores score(const at::Tensor& hidden, const RoutingContext& context) override {
    if (!context.training && !at::GradMode::is_enabled()) {
      const FoldedScorer& router = inference_router();
      return {.logits = apply(hidden, router)};
    }
    kept_ = {};
    const FoldedScorer router = generate(context);
    Scores scores{.logits = apply(hidden, router)};
    if (config_.l2 > 0 && context.training) {
      scores.penalty = router.weight.square().sum() * config_.l2;
      if (config_.bias) scores.penalty = scores.penalty + router.bias.square().sum() * config_.l2;
    }
    return scores;
  }
  FoldedScorer fold() const override {
    torch::NoGradGuard no_grad;
    return generate({});
  }
  /// Also drops the kept router, so that each measurement begins with the parameters as they are.
  void train(bool on = true) override {
    Scorer::train(on);
    kept_ = {};
  }
  void initialize(double std, const InitialDraws& draws) override {
    torch::NoGradGuard no_grad;
    draws.normal("embedding", embedding_, 1);
    if (shares_) return;
    const auto h = static_cast<double>(config_.units()), d = static_cast<double>(width_);
    if (config_.init == Start::authors) {
      network_->initialize(std, std, draws.of("network"));
      return;
    }
    network_->initialize(std::sqrt(2 / static_cast<double>(config_.embedding)), 1,
                         draws.of("network"));
    const at::Tensor rows = network_->rows(entries());  // [E, d + bias, h]
    rows.slice(1, 0, width_).mul_(std::sqrt(1 / ((config_.bias ? 2 : 1) * d * h)));
    rows.slice(1, width_).mul_(std::sqrt(1 / (2 * h)));
  }
  /// Scales the network's last layer. Returns false if layers share the network, since it also
  /// generates other layers' routers.
  bool scale_logits(double factor) override {
    if (config_.share) return false;
    torch::NoGradGuard no_grad;
    network_->scale_output(factor);
    return true;
  }
  void share(Scorer& first) override {
    auto* other = dynamic_cast<Hypernetwork*>(&first);
    PENSTOCK_ASSERT(other, "layers of one model have scorers of one kind");
    if (!config_.share || other == this) return;
    if (!shares_) unregister_module("network");  // it is saved with the first layer
    network_ = other->network_;
    shares_ = true;
    kept_ = {};
  }
  std::int64_t multiply_adds_per_token() const override { return experts_ * width_; }
  ScorerParameters parameters_by_part() const override {
    ScorerParameters out{.router = experts_ * entries(), .embedding = embedding_.numel()};
    if (!shares_)
      for (const at::Tensor& parameter : network_->parameters()) out.network += parameter.numel();
    return out;
  }

 private:
  std::int64_t entries() const { return width_ + (config_.bias ? 1 : 0); }

  FoldedScorer generate(const RoutingContext& context) const {
    at::Tensor units = network_->units(embedding_);  // [1 or E, h]
    if (context.training && config_.dropout > 0) {
      const double keep = 1 - config_.dropout;
      units =
          units * draw_uniform(units.sizes(), units, context).lt(keep).to(units.options()) / keep;
    }
    const at::Tensor router = network_->output(units).view({experts_, entries()});
    FoldedScorer out{.weight = router.slice(1, 0, width_).contiguous()};  // [E, d]
    if (config_.bias) out.bias = router.select(1, width_).contiguous();   // [E]
    return out;
  }
  static at::Tensor apply(const at::Tensor& hidden, const FoldedScorer& router) {
    return ops::linear(hidden, router.weight, ops::if_defined(router.bias));
  }

  /// The router as last generated. It is generated again if a parameter was written or moved.
  /// libtorch's version counters do not see writes of the fused optimizer. Such a write may follow
  /// passes without gradient (a teacher's) that keep a router. Therefore each training pass and
  /// each change of the module's mode, with which a measurement begins, drops the kept router.
  const FoldedScorer& inference_router() {
    std::vector<std::pair<const void*, std::int64_t>> now;
    now.emplace_back(embedding_.data_ptr(), embedding_._version());
    for (const at::Tensor& parameter : network_->parameters())
      now.emplace_back(parameter.data_ptr(), parameter._version());
    if (!kept_.weight.defined() || now != kept_from_) {
      kept_ = fold();
      kept_from_ = std::move(now);
    }
    return kept_;
  }

  Config config_;
  std::int64_t experts_, width_;
  at::Tensor embedding_;  // [1 or E, m]
  std::shared_ptr<Network> network_;
  bool shares_ = false;  // the network is the first layer's
  FoldedScorer kept_;
  std::vector<std::pair<const void*, std::int64_t>> kept_from_;
};

static const RegisterScorer<Hypernetwork, Config> registered{
    "hypernetwork",
    "a router generated by a frozen network from a trained embedding",
    "HyperRouter, arXiv:2312.07035, Eq. 2; its authors' code",
    {.foldable = true}};
static const RegisterOptionNotes<Config> notes{"hypernetwork"};

}  // namespace penstock::hypernetwork
