// The optimizer of processes that share a step. It sums their gradients, updates the weights that
// this rank keeps, and gathers the weights. It does not compute parts.
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

/// Bytes that a rank holds between backward passes.
struct HeldBytes {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;
};

/// Consecutive elements of a parameter that a rank updates, with their moments. The tensors are
/// flat and alias the optimizer's tensors.
struct OptimizerPiece {
  std::string name;
  std::int64_t begin = 0, end = 0;
  at::Tensor weight, first_moment, second_moment;
};

/// A step: begin(); a backward pass and after_part() for each of this rank's parts; after_parts();
/// finish(); update(). Every rank calls them in this order. A rank that fails calls finish(false).
///
/// With several ranks, a thread exchanges a unit's gradients (parameter_units.h) as soon as the
/// backward pass of this rank's last part has left the unit. With zero >= 2 it exchanges them after
/// each part, so that no rank keeps whole gradients. All ranks exchange the units in the same
/// order. Each rank sums its spans of a unit in the tree. With zero = 0 all ranks get the sums and
/// make the same update. With zero > 0 each rank updates its spans. Ranks of one machine then hold
/// one copy of the weights (shared_weights.h), in which all see each other's spans. Ranks of
/// several machines gather the weights after the update; with zero = 3 they gather a layer's
/// weights only before a pass enters the layer (layer_weights.h).
class SharedOptimizer {
 public:
  SharedOptimizer(const torch::nn::Module& trained, const OptimizerConfig& config,
                  const LrScale& lr_scale, GradientSharing sharing);

  /// Drops the parameters' gradients. The first call makes the groups for the exchange thread, and
  /// moves the weights into shared memory if the ranks have it.
  /// @param parts  of all ranks;  @param passes  of each part through the layers
  void begin(std::size_t parts, int passes = 1);
  /// Whether enter() has to be called. A layer then has no weights before enter().
  bool moves_weights() const { return layers_ != nullptr; }
  /// Called before a part's pass goes into a layer, forward or backward.
  void enter(std::int64_t layer);
  void after_part();
  /// Called after this rank's parts, even if they failed, before any operation that waits for other
  /// ranks.
  void after_parts();
  /// Waits until all gradients are summed.
  /// @param complete  whether this rank computed all its parts; if not, no rank may update
  void finish(bool complete);
  /// The global norm of `scale` times the gradients. If it is not finite, the outcome names the
  /// first parameter of all ranks whose gradient is not finite.
  UpdateOutcome measure(double scale = 1) const;
  /// Clips `scale` times the gradients with the given norm and updates with them.
  void update(double norm, double lr, double scale = 1);
  /// Measures, and updates if the norm is finite.
  UpdateOutcome update(double lr);

  /// Gathers the weights of all layers until the next step. With zero = 3 every rank calls it.
  void gather_weights();
  /// Whole moments, with the names of AdamW::state(). With zero > 0 every rank calls it, and the
  /// first of the ranks that divide a parameter's moments gets them.
  std::map<std::string, at::Tensor> state();
  /// Restores whole moments; each rank takes its spans of them. Also takes this rank's spans of the
  /// weights, which may have been written to. REQUIRES: the weights are whole.
  void load_state(const std::map<std::string, at::Tensor>& state, std::int64_t steps);

  /// The pieces that this rank updates: every whole parameter with zero = 0, otherwise its spans.
  /// Their weights are valid even while the layers' weights are not whole.
  std::vector<OptimizerPiece> pieces() const;
  /// All parameters, in the order in which their units are made.
  std::vector<ParameterSize> sizes() const { return sizes_of(parameters_); }
  /// Called after pieces() and the weights have been written to. REQUIRES: the weights are whole.
  void restored(std::int64_t steps);

  /// Counts the bytes of the present tensors. Do not call it while gradients are exchanged.
  HeldBytes held() const;
  /// Seconds of the last step in exchanges on threads beside the passes, and in finish() waiting
  /// for them.
  double hidden_seconds() const { return hidden_seconds_; }
  double waited_seconds() const { return waited_seconds_; }
  /// Seconds of this step spent waiting for weights and for the exchange, in passes and after the
  /// last of this rank's parts.
  double pass_waits() const { return pass_waits_; }

 private:
  /// The state of a unit in this step.
  struct Progress {
    std::size_t parts = 0;    ///< parts of the step; for experts rounds · replicas
    PartRange range;          ///< this rank's parts
    GradientTree own{0};      ///< whole gradients of this rank's parts
    GradientTree spans{0};    ///< gradients of this rank's spans, of all parts
    UnitTensors sum;          ///< by parameter; with zero > 0 by this rank's spans
    std::size_t missing = 0;  ///< number of parameters without their gradient of this part
  };

  /// Whether a unit's whole weights are in memory only while a pass needs them.
  bool moves(const ParameterUnit& unit) const {
    return layers_ && unit.layer >= 0 && group(unit).size() > 1;
  }
  /// Whether the ranks of the unit's group hold one copy of its weights.
  bool one_copy(const ParameterUnit& unit) const { return one_copy_ && group(unit).size() > 1; }
  void hold_one_copy();
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
  void divide_layers();
  void connect();
  void add_hooks();
  void gradient_done(std::size_t parameter);
  /// Whether this part's gradients are exchanged after its backward pass.
  bool due() const;
  /// The index of the first exchange of this part. If parts are exchanged together, it is 0.
  std::size_t first_of_part() const { return sharing_.zero >= 2 ? part_ * units_.size() : 0; }
  GradientTree::Gradients take(const ParameterUnit& unit);
  /// Starts the next exchange. It exchanges units_[next_ % units_.size()].
  /// @param gradients  of this part; empty if this rank has no such part
  void submit(GradientTree::Gradients gradients, bool complete = true);
  /// Starts the remaining exchanges of this step, without gradients of this rank.
  void hand_in_the_rest(bool complete);
  void add_up(std::size_t unit, std::size_t round, GradientTree::Gradients gradients,
              bool complete);
  /// Sums the gradients of which ranks have shares (GradientSharing::in_shares).
  void sum_shares();
  std::vector<std::vector<PartRange>> nodes_of_ranks(std::size_t unit, std::size_t round) const;

  std::vector<at::Tensor> gradients_to_update() const;
  double norm_of(const std::vector<at::Tensor>& gradients) const;
  double norm_in_order(const std::vector<at::Tensor>& spans) const;
  std::string non_finite_parameter(const std::vector<at::Tensor>& gradients) const;
  UnitTensors whole_weights(const ParameterUnit& unit) const;
  std::map<std::string, at::Tensor> spans_of(const std::map<std::string, at::Tensor>& state) const;

  GradientSharing sharing_;
  std::vector<Updated> parameters_;  // whole parameters
  std::vector<ParameterUnit> units_;
  std::vector<std::size_t> unit_of_;  // by parameter
  AdamW optimizer_;                   // of parameters_, or of this rank's spans by unit
  // Set by connect():
  bool connected_ = false, one_copy_ = false;
  std::unique_ptr<LayerWeights> layers_;  // with zero = 3 and more than one copy, otherwise null
  UnitExchange exchange_, expert_exchange_;

  // The state of the present step.
  std::vector<Progress> progress_;
  std::vector<bool> seen_;  // by parameter, whether its gradient of this part is there
  std::size_t part_ = 0, rounds_ = 1, next_ = 0;
  bool active_ = false;
  double hidden_seconds_ = 0, waited_seconds_ = 0, pass_waits_ = 0;
  double layer_seconds_ = 0;  // of layers_ before the step

  std::unique_ptr<GradientHooks> hooks_;
  Background background_;  // last member: its jobs use the other members
};

}  // namespace penstock
