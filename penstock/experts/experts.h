// The experts of one layer: their weights, and their feed-forward over a plan. One process has all
// experts, or each rank of a group has some of them. Not the router, not the residual.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "penstock/dist/group.h"
#include "penstock/experts/ffn_form.h"
#include "penstock/experts/layer_tensors.h"
#include "penstock/ops/initial_draws.h"
#include "penstock/ops/stored_matrix.h"
#include "penstock/routers/routing.h"

namespace penstock {

/// Computations of a layer to run while rows travel between ranks; each is called once. Their
/// backward passes run while gradients travel (exchange_rows.h).
struct OverlappedWork {
  std::function<void()> rows_leave, results_return;
};

/// E feed-forward networks, applied to the assignments of a plan. By default they are gated
/// (SwiGLU) and have no biases; the form can say otherwise.
///   FFN_e(h) = down[e] · (silu(g) ⊙ u),  [g; u] = gate_up[e] · h
///   FFN_e(h) = down[e] · drop(relu(up[e] · h + up_bias[e])) + down_bias[e]
/// Parameters: `gate_up` [E, 2f, d], gate rows first, or `up` [E, f, d]; `down` [E, d, f]; with
/// biases `gate_up_bias` [E, 2f] or `up_bias` [E, f], and `down_bias` [E, d].
///
/// In a group of e ranks, rank i has the experts [E/e·i, E/e·(i+1)), and only their rows of each
/// parameter. Each rank has its own tokens and a plan over all E experts. It gets the result that
/// one process with all experts would compute for its tokens. All ranks run the same passes
/// together, forward and backward. An expert's gradient is the sum over all ranks' outputs; nothing
/// is divided by e.
class Experts : public torch::nn::Module, public ops::ReadsStored {
 public:
  /// Leaves the matrices uninitialised and sets the biases to 0.  @param experts  E, of all ranks
  /// Throws Error if E is not a multiple of the group's size.
  Experts(std::int64_t experts, std::int64_t d_model, std::int64_t d_ffn, FfnForm form = {},
          dist::ProcessGroup group = {});

  /// Adds the tensors of all E experts.
  static void describe(std::int64_t experts, std::int64_t d_model, std::int64_t d_ffn,
                       const FfnForm& form, const LayerTensors& at);

  /// The input matrices ~ N(0, std²), down ~ N(0, down_std²); each rank draws its rows.
  void initialize(double std, double down_std, const InitialDraws& draws);

  /// Assignments: y_t = Σ_{a: token_a = t} weight_a · FFN_{expert_a}(h_t).
  /// Merging: y_t = FFN(h_t) with the weights θ̄_s = Σ_e w_se θ_e of each matrix and bias, where s
  /// is t's segment.
  /// @param hidden [T, d] f32|f64.  @return [T, d]; tokens without an expert get zero.
  /// @param dropout_seed  seed of the form's dropout; nullopt: no dropout, as outside training
  /// @param meanwhile  must be null if one process has all experts, and for merging plans
  /// Gradient: hidden, the plan's weights, all parameters (zero for unused experts).
  /// REQUIRES: the plan's T and E match (checked). Cost of merging: S·E·3df for the blends.
  /// Over ranks: the cost of TokenExchange. Merging sends S·3df numbers, the blends, to each rank.
  /// Source of merging: Lory, arXiv:2405.03133, Eq. 2.
  at::Tensor forward(const at::Tensor& hidden, const Plan& plan,
                     std::optional<std::int64_t> dropout_seed = std::nullopt,
                     const OverlappedWork& meanwhile = {});
  /// Whether the rows of the plan travel between ranks.
  bool sends_rows(const Plan& plan) const { return group_.size() > 1 && !plan.merges(); }

  /// Returns false for experts with biases. Stored experts compute only plans of assignments, and
  /// only outside training.
  bool read_from(const std::string& parameter, const ops::StoredMatrix& matrix) override;
  bool reads_all_or_none() const override { return true; }

  /// Makes the backward pass compute values of size A·f again instead of keeping them
  /// (ops::ExpertOptions).
  bool recompute = false;

  /// The tensors of this rank's experts.
  const at::Tensor& gate_up() const { return gate_up_; }
  const at::Tensor& down() const { return down_; }
  /// The ranks that divide the experts.
  const dist::ProcessGroup& group() const { return group_; }
  /// E, over all ranks.
  std::int64_t count() const { return gate_up_.size(0) * group_.size(); }

 private:
  /// @param dropout_keys  keys of the plan's assignments; undefined: keys from the seed
  at::Tensor assigned(const at::Tensor& hidden, const Plan& plan,
                      std::optional<std::int64_t> dropout_seed,
                      const at::Tensor& dropout_keys) const;
  at::Tensor merged(const at::Tensor& hidden, const Plan& plan,
                    std::optional<std::int64_t> dropout_seed) const;

  FfnForm form_;
  dist::ProcessGroup group_;
  // For this rank's E/e experts:
  at::Tensor gate_up_;             // [E/e, m·f, d]
  at::Tensor down_;                // [E/e, d, f]
  at::Tensor in_bias_, out_bias_;  // [E/e, m·f], [E/e, d], or undefined
  ops::StoredExperts stored_;      // used instead of the matrices once both sets were given
};

}  // namespace penstock
