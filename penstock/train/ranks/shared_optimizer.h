// The optimizer of processes that share a step: adds their gradients up, updates what this rank
// keeps, and brings the weights together. How a part is computed is none of its business.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/optim/adamw.h"
#include "penstock/train/background.h"
#include "penstock/train/ranks/gradient_hooks.h"
#include "penstock/train/ranks/gradient_sharing.h"
#include "penstock/train/ranks/layer_weights.h"
#include "penstock/train/ranks/unit_exchange.h"

namespace penstock {

/// What a rank holds between backward passes.
struct HeldBytes {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;
};

/// Consecutive numbers of a parameter that a rank updates, with their moments, all flat. They alias
/// the optimizer's.
struct OptimizerPiece {
  std::string name;
  std::int64_t begin = 0, end = 0;
  at::Tensor weight, first_moment, second_moment;
};

/// A step: begin(); a backward pass and after_part() for each of this rank's parts; finish();
/// update(). Every rank calls them in this order, also where it fails on the way: finish() says so.
///
/// With several ranks a unit's gradients (parameter_units.h) are exchanged as soon as the last own
/// part's backward pass has left it, by a thread of its own, in the same order on all ranks; with
/// zero >= 2 after each part, so that no rank keeps a whole one. Each rank adds up its spans of a
/// unit in the tree. Without zero all get the sums and make the same update; with it each updates
/// its spans, and the weights are gathered: after the update, or with zero = 3, for layers, when a
/// pass comes to them (layer_weights.h).
class SharedOptimizer {
 public:
  SharedOptimizer(const torch::nn::Module& trained, const OptimizerConfig& config,
                  const LrScale& lr_scale, GradientSharing sharing);

  /// Forgets gradients. The first one connects the ranks once more, for the thread.
  /// @param passes  of each part through the layers
  void begin(std::size_t parts, int passes = 1);
  /// Whether enter() is to be called. A layer has no weights before it is entered.
  bool moves_weights() const { return layers_ != nullptr; }
  /// Before a part's pass goes into a layer, forward or backward.
  void enter(std::int64_t layer);
  void after_part();
  /// After own parts, also where they failed, before anything that waits for other ranks.
  void after_parts();
  /// Waits until all gradients are summed.
  /// @param complete  whether all own parts were computed; if not, no rank may update
  void finish(bool complete);
  /// The global norm of `scale` times the gradients, and what is not finite on any rank.
  UpdateOutcome measure(double scale = 1) const;
  /// Clips by that norm and updates with `scale` times the gradients.
  void update(double norm, double lr, double scale = 1);
  /// Both, unless the norm is not finite.
  UpdateOutcome update(double lr);

  /// Makes the weights of all layers whole until the next step. With zero = 3 every rank calls it.
  void gather_weights();
  /// Moments as AdamW::state() has them, whole. With zero every rank calls it, and the first rank
  /// of those that divide a parameter's moments gets them.
  std::map<std::string, at::Tensor> state();
  /// From whole moments, of which each rank takes its spans; and of the weights, which may have
  /// been written to. REQUIRES: the weights are whole.
  void load_state(const std::map<std::string, at::Tensor>& state, std::int64_t steps);

  /// What this rank updates: without zero every parameter whole, else its spans. The weights are
  /// right whether or not those of the layers are whole.
  std::vector<OptimizerPiece> pieces() const;
  /// All parameters, in the order in which their units are made.
  std::vector<ParameterSize> sizes() const { return sizes_of(parameters_); }
  /// After pieces() and the weights, which are whole, have been written to.
  void restored(std::int64_t steps);

  /// Counted now, from the tensors. Not while gradients are exchanged.
  HeldBytes held() const;
  /// Seconds of the last step: in operations behind the backward pass, and waiting for these.
  double hidden_seconds() const { return hidden_seconds_; }
  double waited_seconds() const { return waited_seconds_; }
  /// Of the passes of this step, that were spent in waiting for weights and for the exchange.
  double pass_waits() const { return pass_waits_; }

 private:
  /// A unit in this step.
  struct Progress {
    std::size_t parts = 0;    ///< or rounds of parts
    PartRange range;          ///< of this rank
    GradientTree own{0};      ///< this rank's parts, whole
    GradientTree spans{0};    ///< this rank's spans of all parts
    UnitTensors sum;          ///< by parameter, or with zero by this rank's spans
    std::size_t missing = 0;  ///< parameters whose gradient of this part is not there yet
  };

  /// Whether a unit's weights are there only while a pass needs them.
  bool moves(const ParameterUnit& unit) const {
    return divides() && sharing_.zero == 3 && unit.layer >= 0 && group(unit).size() > 1;
  }
  bool divides() const { return sharing_.zero > 0 && !sharing_.alone(); }
  const dist::ProcessGroup& group(const ParameterUnit& unit) const {
    return unit.experts ? sharing_.replicas : sharing_.data;
  }
  UnitExchange& exchange(const ParameterUnit& unit) {
    return unit.experts ? expert_exchange_ : exchange_;
  }
  const std::vector<Span>& own_spans(const ParameterUnit& unit) const {
    return unit.spans[static_cast<std::size_t>(group(unit).rank())];
  }
  std::vector<Updated> updated_spans() const;
  std::unique_ptr<LayerWeights> layer_weights() const;
  void connect();
  void add_hooks();
  void gradient_done(std::size_t parameter);
  /// Whether this part's gradients are exchanged after its backward pass.
  bool due() const;
  /// The first exchange of this part, or of all where they are exchanged together.
  std::size_t first_of_part() const { return sharing_.zero >= 2 ? part_ * units_.size() : 0; }
  GradientTree::Gradients take(const ParameterUnit& unit);
  /// The next exchange, which is of units_[next_ % units_.size()].
  /// @param gradients  of this part; none: this rank has no such part
  void submit(GradientTree::Gradients gradients, bool complete = true);
  /// The exchanges of this step that are left, for which this rank has nothing.
  void hand_in_the_rest(bool complete);
  void add_up(std::size_t unit, std::size_t round, GradientTree::Gradients gradients,
              bool complete);
  /// Brings together gradients of which ranks have shares (GradientSharing::in_shares).
  void sum_shares();
  std::vector<std::vector<PartRange>> nodes_of_ranks(std::size_t unit, std::size_t round) const;

  std::vector<at::Tensor> gradients_to_update() const;
  double norm_of(const std::vector<at::Tensor>& gradients) const;
  double norm_in_order(const std::vector<at::Tensor>& spans) const;
  std::string non_finite_parameter(const std::vector<at::Tensor>& gradients) const;
  UnitTensors whole_weights(const ParameterUnit& unit) const;
  std::map<std::string, at::Tensor> spans_of(const std::map<std::string, at::Tensor>& state) const;

  GradientSharing sharing_;
  std::vector<Updated> parameters_;  // whole
  std::vector<ParameterUnit> units_;
  std::vector<std::size_t> unit_of_;      // by parameter
  AdamW optimizer_;                       // of parameters_, or by unit of this rank's spans
  std::unique_ptr<LayerWeights> layers_;  // or null
  UnitExchange exchange_, expert_exchange_;
  bool connected_ = false;

  // The step.
  std::vector<Progress> progress_;
  std::vector<bool> seen_;  // by parameter: its gradient of this part is there
  std::size_t part_ = 0, rounds_ = 1, next_ = 0;
  bool active_ = false;
  double hidden_seconds_ = 0, waited_seconds_ = 0, pass_waits_ = 0;

  std::unique_ptr<GradientHooks> hooks_;
  Background background_;  // last: its jobs use the others
};

}  // namespace penstock
