// The doctor: what is wrong with a model before a day of training is spent on it.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/convert/upcycle/expert_copies.h"
#include "penstock/doctor/diagnosis.h"
#include "penstock/models/language_model.h"
#include "penstock/models/model_source.h"

namespace penstock {

struct DoctorOptions {
  std::string dense;           ///< the parent; "": none
  std::string text;            ///< corpus or text file; "": ids at random
  std::int64_t tokens = 2048;  ///< looked at
};

/// Looks at a model on disk: its files and weights, its experts beside the parent's feed-forwards,
/// its logits beside the parent's, what its routers do with a text, whether all of it would learn.
/// Never throws for what is wrong with the model: that is a fault in the result. Throws Error for
/// what is wrong with the text, or with the parent.
/// Memory: the model and its parent in f32, one MoE layer's gradients and moments, the activations
/// of a training pass over one window.
Diagnosis examine(const std::string& model, const DoctorOptions& options);

namespace doctor {

/// How the experts are related to the parent's feed-forwards.
struct ExpertRelation {
  bool copies = false;                  ///< exactly, granularity 1
  bool parent = false;                  ///< all but experts and routers is exactly the parent's
  bool silent_shared = true;            ///< the shared expert, if there is one, gives 0
  ShardScale scale = ShardScale::none;  ///< what every expert's matrices were scaled by
  double distance = 0;                  ///< mean |expert − parent's| / |parent's| of the matrices
};

/// Weights that are not finite; false where there are some.
bool check_weights(const ModelSource& model, Diagnosis& diagnosis);

/// Whether the model can have been made of that parent, by shapes and positions.
bool check_parent(const ModelConfig& model, const ModelConfig& dense, Diagnosis& diagnosis);

/// Experts that vanish; with a parent also those that are not its own, swapped or unscaled.
/// @param scale_none  shards were left unscaled on purpose
ExpertRelation check_experts(const ModelSource& model, const ModelSource* dense, bool scale_none,
                             Diagnosis& diagnosis);

/// What the parent says of the sample.
struct DenseView {
  at::Tensor logits;  ///< [t, V] of the first tokens
  double loss = 0;
};
DenseView view_dense(LanguageModel& dense, const at::Tensor& windows);

/// Logits beside the parent's: with all experts, and as configured. Says beside those what the
/// gates sum to, where check_routing has looked before.
void check_logits(LanguageModel& model, const DenseView& dense, const ExpertRelation& relation,
                  const at::Tensor& windows, Diagnosis& diagnosis);

/// Gates, entropy, balance, idle experts, folding, tied experts.
void check_routing(LanguageModel& model, const at::Tensor& windows, Diagnosis& diagnosis);

/// What the first training step follows: each term of its loss on one window, and the norm of that
/// term's gradient by itself.
void check_objective(LanguageModel& model, const at::Tensor& windows, Diagnosis& diagnosis);

/// One training pass of each MoE layer by itself: gradients and moments of every expert and router.
void check_learning(LanguageModel& model, const at::Tensor& windows, Diagnosis& diagnosis);

}  // namespace doctor
}  // namespace penstock
