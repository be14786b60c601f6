// The objective that a training step minimises. It is the cross-entropy of one pass over a batch. A
// routing method with two passes (THOR) minimises the cross-entropy of both and their disagreement.
// A routing method with distillation adds the divergence of the pass from a pass with all experts.
// Balancers' losses are not here.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/models/language_model.h"

namespace penstock {

/// Σ over passes of (mean-token cross-entropy + auxiliary losses) + weight · disagreement
/// + distillation · divergence. The divergence is from another pass with all experts, which has no
/// gradient and is in evaluation mode.
struct Objective {
  int passes = 1;           ///< passes with gradient
  double weight = 0;        ///< of the disagreement of two passes
  double distillation = 0;  ///< weight of the divergence; 0: no pass with all experts; 0 if
                            ///< passes is 2
};

/// The objective of a model's routing method, from its router's traits.
Objective training_objective(const RouterTraits& traits);

/// The name of the balancer that counts loads over a whole step (scope = "global"); "": none.
std::string part_that_pools(const ModelConfig& config);

/// Disagreement of two predictions, p = softmax(first) and q = softmax(second) by row:
///   mean over rows of ½ Σ_v (p − q)(log p − log q).
/// It is the mean of KL(p‖q) and KL(q‖p), in nats; 0 where p = q. Symmetric.
/// @param first, second  [R, V] f32|f64, R > 0.  @return [].  Gradient: both.
/// Source: THOR, arXiv:2110.04260, Eq. 5-6, where the released code has ½.
at::Tensor disagreement(const at::Tensor& first, const at::Tensor& second);

/// Divergence of a prediction q = softmax(student) from p = softmax(teacher), by row:
///   mean over rows of KL(p‖q) = Σ_v p (log p − log q).
/// It is in nats; 0 where p = q.
/// @param teacher, student  [R, V] f32|f64, R > 0.  @return [].  Gradient: for student only,
/// (q − p) / R.
at::Tensor divergence(const at::Tensor& teacher, const at::Tensor& student);

struct DisagreementPass {
  double value = 0;
  at::Tensor first_gradient, second_gradient;  ///< [R, d], scaled
};

/// Forward and backward pass of the disagreement. The head makes the predictions from the final
/// hidden rows of two passes. Works through the rows in chunks, so that it holds the logits of one
/// chunk only. Where ranks divide the rows, each rank computes the rows that it holds; the value is
/// the mean over all rows. Adds `scale` times the gradient to the gradients of the head's
/// parameters. Returns `scale` times the gradients of both inputs, for the passes' own backward.
/// @param first, second  [R, d], R > 0.
/// @param logits_bytes   bytes of the logits of one pass held at a time; at least one row is held
DisagreementPass disagreement_backward(const LanguageModel& model, const at::Tensor& first,
                                       const at::Tensor& second, double scale,
                                       std::int64_t logits_bytes);

struct DivergencePass {
  double value = 0;
  at::Tensor gradient;  ///< [R, d], scaled, of the student's rows
};

/// The same for the divergence of the student's predictions from the teacher's. The head gets no
/// gradient through the teacher's predictions.
DivergencePass divergence_backward(const LanguageModel& model, const at::Tensor& teacher,
                                   const at::Tensor& student, double scale,
                                   std::int64_t logits_bytes);

}  // namespace penstock
