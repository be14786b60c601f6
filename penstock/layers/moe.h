// The Mixture-of-Experts feed-forward layer: a router and its experts. This is what a libtorch
// model of one's own embeds:
//
//   penstock::MoeOptions options{.d_model = 64, .d_ffn = 128, .experts = 8};
//   options.router.method = "remoe";
//   auto moe = register_module("moe", std::make_shared<penstock::MoeLayer>(options));
//   auto [y, routing] = moe->forward(x, {.training = is_training()});
//   (task_loss + routing.loss).backward();  optimizer.step();  moe->after_step();
//
// Several layers of one model are made together, so that they share the balancers' state:
//
//   options.layers = 4;
//   auto layers = penstock::make_moe_layers(options);  // one λ; after_step of any one moves it
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/experts/experts.h"
#include "penstock/experts/layer_tensors.h"
#include "penstock/layers/feed_forward.h"
#include "penstock/layers/projection.h"
#include "penstock/layers/rank_rows.h"
#include "penstock/ops/initial_draws.h"
#include "penstock/ops/slice.h"
#include "penstock/routers/router.h"

namespace penstock {

struct MoeOptions {
  std::int64_t d_model = 0;
  std::int64_t d_ffn = 0;    ///< f of one expert, granularity applied
  std::int64_t experts = 0;  ///< E, granularity applied
  RouterConfig router;       ///< router.k before granularity
  double granularity = 1;    ///< multiplies router.k only; E and f are given with it applied
  double init_std = 0.02;
  double output_std = 0.02;
  FfnForm form;                   ///< of one expert
  std::int64_t shared_width = 0;  ///< f of an expert for every token, a SwiGLU one; 0: none
  bool shared_gate = false;       ///< its output times sigmoid(w · x)
  double shared_output_std = 0.02;
  std::int64_t layer = 0, layers = 1;  ///< place among the model's MoE layers
  /// Ranks that each compute an equal part of every expert's neurons: all route the same rows
  /// alike. REQUIRES with several: neither biases nor dropout (asserted).
  dist::ProcessGroup tensor_group;
  bool divided_rows = false;  ///< whether these divide the rows of x and of y (RankRows)
  /// Each of these ranks takes an equal part of the tokens to whole experts in place of a part of
  /// every expert's neurons. Then they may share experts with each other, too.
  /// REQUIRES: balancers of a model (checked); those of a layer would count tokens more than once.
  bool whole_experts = false;
  /// Ranks that hold the experts between them (Experts); each has rows of its own. A router, shared
  /// expert and state of balancers are alike on all; the gradients of these a trainer adds up.
  /// With whole_experts it lies within tensor_group, or is made of such groups.
  dist::ProcessGroup expert_group;
  /// Whether the shared expert is computed while rows travel in that group; the bits are the same.
  bool overlap = true;
};

struct MoeOutput {
  at::Tensor y;  ///< same shape as the input
  RoutingResult routing;
};

class MoeLayer : public torch::nn::Module {
 public:
  /// A layer by itself. It makes its own balancers, which no other layer shares unless it is made
  /// with the next constructor, and is initialised with a seed from libtorch's default generator.
  explicit MoeLayer(const MoeOptions& options);
  /// A further layer of the model that `first` is of: it shares `first`'s own balancers, which are
  /// saved with `first`. The options are the same but for `layer`, sizes of the experts, and
  /// initialisation.
  MoeLayer(const MoeOptions& options, const MoeLayer& first);
  /// A layer of a LanguageModel, which moves the balancers and initialises or reads the weights.
  MoeLayer(const MoeOptions& options, std::vector<std::shared_ptr<Balancer>> balancers);

  /// Adds the tensors of such a layer, of all ranks together, but for its scorer's
  /// (scorer_tensors.h), which only a built scorer knows, and balancers'.
  static void describe(const MoeOptions& options, const LayerTensors& at);

  /// Draws the weights with the standard deviations of the options; see Scorer::initialize.
  void initialize(const InitialDraws& draws);

  /// @param x [..., d], normed; the rows held where ranks divide them.  @return the routing result,
  ///   which is of all rows, and
  ///   y = Σ_e weight_e FFN_e(x) + g · FFN_shared(x),  g = sigmoid(w · x), or 1 without a gate
  /// The shared expert's gate is that of Qwen2-MoE (arXiv:2407.10671).
  /// @param dropout_seed  of the experts' dropout; nullopt: none, as outside training
  MoeOutput forward(const at::Tensor& x, const RoutingContext& context = {},
                    std::optional<std::int64_t> dropout_seed = std::nullopt);

  /// After each optimizer step, where layers have balancers of their own: moves λ and the like by
  /// the passes with context.training since the step before, of all layers that share them and all
  /// micro-batches together (StepStatistics). To be called for one of these layers or for all: the
  /// first call moves, those after it find nothing new. Evaluations do not count; without a
  /// training pass nothing moves. Passes of all ranks of the expert group count, and all ranks make
  /// the same calls.
  void after_step();

  /// The layer's scorer, selector and balancers.
  Router& router() { return *router_; }
  /// The experts' weights.
  Experts& experts() { return *experts_; }

 private:
  /// Balancers that the layers of an embedder share, and what these layers saw since the last step.
  struct OwnBalancing {
    RouterShape shape;
    std::vector<std::string> names;
    std::vector<std::shared_ptr<Balancer>> balancers;
    StepCounts seen;
    dist::ProcessGroup group;  // whose passes count together
  };
  MoeLayer(const MoeOptions& options, std::vector<std::shared_ptr<Balancer>> balancers,
           std::shared_ptr<OwnBalancing> own);
  static std::shared_ptr<OwnBalancing> own_balancing(const MoeOptions& options);

  /// The shared expert's output; with several ranks what this one adds to it.
  /// @param inner  [T, ..], what its neurons give;  @param alike  [T, d], rows for what ranks do
  /// alike
  at::Tensor shared(const at::Tensor& inner, const at::Tensor& alike);
  /// Puts where experts are at home, for losses of locality, in place of what is not given.
  void set_homes(RoutingContext& context) const;
  /// The tokens that this rank takes to the experts.
  IndexRange own_tokens(const Plan& plan) const;

  std::shared_ptr<Router> router_;
  std::shared_ptr<Experts> experts_;
  std::shared_ptr<FeedForward> shared_expert_;      // null where there is none
  std::shared_ptr<Projection> shared_expert_gate_;  // [1, d]; null where there is none
  std::shared_ptr<OwnBalancing> own_;               // null where the model moves the balancers
  MoeOptions options_;
  RankRows rows_;
};

/// The `options.layers` MoE layers of one model: with one set of balancers, which the first saves,
/// and with what their scorers share. A layer that is to have a λ of its own is made by itself.
std::vector<std::shared_ptr<MoeLayer>> make_moe_layers(MoeOptions options);

/// Names in `model` of the parameters that are the routers' of these layers of it.
std::set<std::string> router_parameters(const torch::nn::Module& model,
                                        const std::vector<MoeLayer*>& layers);

/// Joins what the scorers of a model's layers share (a hypernetwork for all), once they are made.
void share_scorers(const std::vector<MoeLayer*>& layers);

/// The router's shape of a layer with these options.
RouterShape router_shape(const MoeOptions& options);

}  // namespace penstock
