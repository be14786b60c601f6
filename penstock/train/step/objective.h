// The objective that a training step minimises: the cross-entropy of one pass over a batch or,
// where the routing method makes two passes (THOR), of both, and their disagreement; or of one pass
// that is also to predict what the model does with all experts. Balancers' losses are not here.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/models/language_model.h"

namespace penstock {

/// Σ over passes of (mean-token cross-entropy + auxiliary losses) + weight · disagreement
/// + distillation · divergence, the latter from a pass before with all experts, without gradient,
/// as outside training.
struct Objective {
  int passes = 1;           ///< with gradient
  double weight = 0;        ///< of the disagreement of two passes
  double distillation = 0;  ///< weight of the divergence; 0: no such pass. Then passes is 1
};

/// The objective of a model's routing method, as its router's traits say it.
Objective training_objective(const RouterTraits& traits);

/// The balancer of the model's router that counts over a whole step (scope = "global"); "": none.
std::string part_that_pools(const ModelConfig& config);

/// Disagreement of two predictions, p = softmax(first) and q = softmax(second) by row:
///   mean over rows of ½ Σ_v (p − q)(log p − log q),
/// the mean of KL(p‖q) and KL(q‖p); in nats, 0 where p = q. Symmetric.
/// @param first, second  [R, V] f32|f64, R > 0.  @return [].  Gradient: both.
/// Source: THOR, arXiv:2110.04260, Eq. 5-6, where the released code has ½.
at::Tensor disagreement(const at::Tensor& first, const at::Tensor& second);

/// Divergence of a prediction q = softmax(student) from p = softmax(teacher), by row:
///   mean over rows of KL(p‖q) = Σ_v p (log p − log q),
/// in nats, 0 where p = q.
/// @param teacher, student  [R, V] f32|f64, R > 0.  @return [].  Gradient: student alone,
/// (q − p) / R.
at::Tensor divergence(const at::Tensor& teacher, const at::Tensor& student);

struct DisagreementPass {
  double value = 0;
  at::Tensor first_gradient, second_gradient;  ///< [R, d], scaled
};

/// Forward and backward pass of the disagreement of the head's predictions from the last rows of
/// two passes; where ranks divide the rows, of those that each holds, with the mean of all. Works
/// through the rows in chunks, so that no more than a chunk's logits are held at a time. Adds
/// `scale` times the gradient to what the head's parameters have accumulated, and returns scale
/// times the gradient of both rows, for the passes' own backward.
/// @param first, second  [R, d], R > 0.
/// @param logits_bytes   of the logits of one pass held at a time, at least one row's
DisagreementPass disagreement_backward(const LanguageModel& model, const at::Tensor& first,
                                       const at::Tensor& second, double scale,
                                       std::int64_t logits_bytes);

struct DivergencePass {
  double value = 0;
  at::Tensor gradient;  ///< [R, d], scaled, of the student's rows
};

/// The same for the divergence of the student's predictions from the teacher's; the head has no
/// gradient through the teacher's.
DivergencePass divergence_backward(const LanguageModel& model, const at::Tensor& teacher,
                                   const at::Tensor& student, double scale,
                                   std::int64_t logits_bytes);

}  // namespace penstock
