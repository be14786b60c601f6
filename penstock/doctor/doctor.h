// The doctor: checks a model for faults before it is trained.
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
  std::string text;            ///< corpus or text file; "": random ids
  std::int64_t tokens = 2048;  ///< tokens in the sample
};

/// Checks a model on disk: its files and weights, its experts against the parent's feed-forwards,
/// its logits against the parent's, its routing of a text, and whether its experts and routers
/// learn. A defect of the model is a fault in the result and throws nothing.
/// Throws Error for a defect of the text or of the parent.
/// Memory: the model and its parent in f32, one MoE layer's gradients and moments, the activations
/// of a training pass over one window.
Diagnosis examine(const std::string& model, const DoctorOptions& options);

namespace doctor {

/// The relation of the experts to the parent's feed-forwards.
struct ExpertRelation {
  bool copies = false;                  ///< all experts are exact copies, and granularity is 1
  bool parent = false;                  ///< attention, norms and embeddings equal the parent's
  bool silent_shared = true;            ///< the shared expert, if there is one, gives 0
  ShardScale scale = ShardScale::none;  ///< the scaling of every expert's matrices
  double distance = 0;                  ///< mean |expert − parent's| / |parent's| of the matrices
};

/// Checks that all weights are finite. Returns false if a weight is not.
bool check_weights(const ModelSource& model, Diagnosis& diagnosis);

/// Checks by shapes and positions that the model can have been made from this parent. Returns false
/// if it cannot.
bool check_parent(const ModelConfig& model, const ModelConfig& dense, Diagnosis& diagnosis);

/// Checks for experts with zero weights. With a parent, also checks for experts that do not
/// resemble its feed-forwards, for swapped matrices and for unscaled shards.
/// @param scale_none  shards were left unscaled on purpose
ExpertRelation check_experts(const ModelSource& model, const ModelSource* dense, bool scale_none,
                             Diagnosis& diagnosis);

/// The parent's results on the sample.
struct DenseView {
  at::Tensor logits;  ///< [t, V], for the first t tokens
  double loss = 0;
};
DenseView view_dense(LanguageModel& dense, const at::Tensor& windows);

/// Compares the logits with the parent's, once with all experts and once as configured. The finding
/// includes the sums of gates if check_routing was called before.
void check_logits(LanguageModel& model, const DenseView& dense, const ExpertRelation& relation,
                  const at::Tensor& windows, Diagnosis& diagnosis);

/// Checks gates, entropy, balance, idle experts, folding and tied experts.
void check_routing(LanguageModel& model, const at::Tensor& windows, Diagnosis& diagnosis);

/// Checks the loss of the first training step: the size of each term on one window, and the norm of
/// each term's gradient.
void check_objective(LanguageModel& model, const at::Tensor& windows, Diagnosis& diagnosis);

/// Runs a separate training pass of each MoE layer, and checks that its experts and its router get
/// gradients and that the optimizer has moments of the experts.
void check_learning(LanguageModel& model, const at::Tensor& windows, Diagnosis& diagnosis);

}  // namespace doctor
}  // namespace penstock
