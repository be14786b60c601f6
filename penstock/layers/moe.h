// The Mixture-of-Experts feed-forward layer: a router and its experts. A libtorch model embeds it:
//
//   penstock::MoeOptions options{.d_model = 64, .d_ffn = 128, .experts = 8};
//   options.router.method = "remoe";
//   auto moe = register_module("moe", std::make_shared<penstock::MoeLayer>(options));
//   auto [y, routing] = moe->forward(x, {.training = is_training()});
//   (task_loss + routing.loss).backward();  optimizer.step();  moe->after_step();
//
// make_moe_layers makes several layers of one model, which share the balancers' state:
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
  double granularity = 1;    ///< multiplies router.k only; E and f already have it applied
  double init_std = 0.02;
  double output_std = 0.02;
  FfnForm form;                   ///< the form of one expert
  std::int64_t shared_width = 0;  ///< f of the shared expert (SwiGLU, for every token); 0: none
  bool shared_gate = false;       ///< multiplies the shared expert's output by sigmoid(w · x)
  double shared_output_std = 0.02;
  std::int64_t layer = 0, layers = 1;  ///< index among the model's MoE layers, and their number
  /// The ranks that each compute an equal part of every expert's neurons. All route the same rows
  /// in the same way. REQUIRES with several ranks: no biases and no dropout (asserted).
  dist::ProcessGroup tensor_group;
  bool divided_rows = false;  ///< whether the tensor group divides the rows of x and y (RankRows)
  /// Whether each rank of the tensor group computes an equal part of the tokens with whole experts,
  /// in place of all tokens with a part of every expert's neurons. The ranks may then also divide
  /// the experts between them.
  /// REQUIRES: balancers of a model (checked). Balancers of a layer would count tokens repeatedly.
  bool whole_experts = false;
  /// The ranks that divide the experts between them (Experts). Each rank has its own rows. Router,
  /// shared expert and the balancers' state are equal on all ranks; a trainer sums their gradients
  /// over ranks. With whole_experts this group lies within tensor_group, or consists of several
  /// tensor groups.
  dist::ProcessGroup expert_group;
  /// Whether the shared expert is computed while the expert group exchanges rows. The bits of the
  /// result are the same.
  bool overlap = true;
};

struct MoeOutput {
  at::Tensor y;  ///< same shape as the input
  RoutingResult routing;
};

class MoeLayer : public torch::nn::Module {
 public:
  /// A layer with its own balancers. Other layers share the balancers if the next constructor makes
  /// them. The weights are initialised with a seed from libtorch's default generator.
  explicit MoeLayer(const MoeOptions& options);
  /// A further layer of the model of `first`. It shares the balancers of `first`, which are saved
  /// with `first`. Only `layer`, the sizes of the experts and the initialisation may differ from
  /// the options of `first`.
  MoeLayer(const MoeOptions& options, const MoeLayer& first);
  /// A layer of a LanguageModel. The model moves the balancers, and initialises or reads the
  /// weights.
  MoeLayer(const MoeOptions& options, std::vector<std::shared_ptr<Balancer>> balancers);

  /// Adds the layer's tensors of all ranks together. The tensors of the scorer, which only a built
  /// scorer knows (scorer_tensors.h), and of the balancers are not among them.
  static void describe(const MoeOptions& options, const LayerTensors& at);

  /// Draws the weights with the standard deviations of the options; see Scorer::initialize.
  void initialize(const InitialDraws& draws);

  /// y = Σ_e weight_e FFN_e(x) + g · FFN_shared(x),  g = sigmoid(w · x), or 1 without a gate.
  /// @param x [..., d], normed; the rows that this rank holds if ranks divide the rows
  /// @param dropout_seed  seed of the experts' dropout; nullopt: no dropout, as outside training
  /// @return y, and the routing result of all rows
  /// Source of the shared expert's gate: Qwen2-MoE, arXiv:2407.10671.
  MoeOutput forward(const at::Tensor& x, const RoutingContext& context = {},
                    std::optional<std::int64_t> dropout_seed = std::nullopt);

  /// Moves the layer's own balancers (λ and similar state). Call it after each optimizer step. The
  /// balancers read the statistics (StepStatistics) of all passes with context.training since the
  /// last call: of all layers that share the balancers, all micro-batches, and all ranks of the
  /// expert group. A call for one of these layers is enough; further calls change nothing.
  /// Without a training pass nothing moves. It does nothing if the balancers are a model's.
  /// REQUIRES: all ranks of the expert group make the same calls.
  void after_step();

  /// The layer's scorer, selector and balancers.
  Router& router() { return *router_; }
  /// The experts' weights.
  Experts& experts() { return *experts_; }

 private:
  /// The balancers that the layers of an embedder share, and the counts of these layers since the
  /// last step.
  struct OwnBalancing {
    RouterShape shape;
    std::vector<std::string> names;
    std::vector<std::shared_ptr<Balancer>> balancers;
    StepCounts seen;
    dist::ProcessGroup group;  // the ranks whose counts are summed
  };
  MoeLayer(const MoeOptions& options, std::vector<std::shared_ptr<Balancer>> balancers,
           std::shared_ptr<OwnBalancing> own);
  static std::shared_ptr<OwnBalancing> own_balancing(const MoeOptions& options);

  /// The shared expert's output. With several ranks it is this rank's summand of the output.
  /// @param inner  [T, ..], from FeedForward::inner of the shared expert
  /// @param alike  [T, d], from RankRows::alike
  at::Tensor shared(const at::Tensor& inner, const at::Tensor& alike);
  /// Sets the context's `rank` and `expert_rank`, which locality losses read, if the context has no
  /// `expert_rank`.
  void set_homes(RoutingContext& context) const;
  /// The tokens that this rank sends to the experts.
  IndexRange own_tokens(const Plan& plan) const;

  std::shared_ptr<Router> router_;
  std::shared_ptr<Experts> experts_;
  std::shared_ptr<FeedForward> shared_expert_;      // null without a shared expert
  std::shared_ptr<Projection> shared_expert_gate_;  // [1, d]; null without a gate
  std::shared_ptr<OwnBalancing> own_;               // null if the model moves the balancers
  MoeOptions options_;
  RankRows rows_;
};

/// Makes the `options.layers` MoE layers of one model. They share one set of balancers, which is
/// saved with the first layer, and their scorers share parameters (Scorer::share). For a λ per
/// layer, make each layer by itself.
std::vector<std::shared_ptr<MoeLayer>> make_moe_layers(MoeOptions options);

/// The names in `model` of the parameters of these layers' routers. The layers belong to `model`.
std::set<std::string> router_parameters(const torch::nn::Module& model,
                                        const std::vector<MoeLayer*>& layers);

/// Joins the parameters that the scorers of a model's layers share (for example one hypernetwork).
/// Call it once all layers are made.
void share_scorers(const std::vector<MoeLayer*>& layers);

/// The shape of the router of a layer with these options.
RouterShape router_shape(const MoeOptions& options);

}  // namespace penstock
