// Routers made of the parent's attention heads (Router Upcycling): query maps and keys, the one
// matrix that they fold into, and what they read. Which heads form a group is head_groups.h's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "penstock/convert/upcycle/head_groups.h"
#include "penstock/convert/upcycle/router_tensors.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/models/model_source.h"
#include "penstock/ops/initial_draws.h"

namespace penstock {

/// Query maps and keys of one layer's groups, of a `mixture` scorer.
///   W^j = rows of W_Q of group j's heads, one head after another, [d', d];  K_i = their mean keys
/// With a query bias also `query_bias`, the same rows of b_Q.
/// @param query_weight [H·hd, d], @param query_bias [H·hd] or undefined, @param keys [H, hd] K_A
RouterTensors mixture_of_heads(const HeadGroups& groups, const at::Tensor& query_weight,
                               const at::Tensor& query_bias, const at::Tensor& keys);

/// The query projection of a layer of the parent as its routers read it, [H·hd, d] f32; with
/// options.correct_gain as with_corrected_gain() has it.
at::Tensor query_weight(const ModelSource& parent, const UpcycleOptions& options,
                        std::int64_t layer);

/// Its bias, [H·hd] f32; undefined where there is none, or options.query_bias leaves it out.
at::Tensor query_bias(const ModelSource& parent, const UpcycleOptions& options, std::int64_t layer);

/// `queries` alone, of a layer of the parent and the groups that it was given.
at::Tensor query_maps(const ModelSource& parent, const UpcycleOptions& options,
                      const HeadGroups& groups, std::int64_t layer);

/// The query projection as it computes from the experts' input what it did from attention's:
///   W_Q · diag(g_attention / g_experts),
/// since RMS norms give both, x = g ⊙ n(h), and W_Q was trained on the former's. The two residual
/// streams n is taken of still differ. A feature whose g_experts is 0 counts for nothing: its input
/// is 0.
/// @param query_weight [H·hd, d], @param attention_gain [d], @param expert_gain [d]
at::Tensor with_corrected_gain(const at::Tensor& query_weight, const at::Tensor& attention_gain,
                               const at::Tensor& expert_gain);

/// Adds to each key that equals an earlier one N(0, (s/10)²) per entry, s² its mean square, so that
/// no two experts are tied for good. Only keys that heads share (grouped-query attention) are.
/// Returns how many there were. Our choice; the paper's model has a key per head.
std::int64_t break_ties(at::Tensor& keys, const InitialDraws& draws);

/// The one matrix (and bias) of a sum-pooled mixture with a key per expert: `weight` [E, d] and
/// `bias` [E].
RouterTensors collapsed_mixture(const RouterTensors& mixture);

/// By how much more than a plain router's an entry of the folded matrix moves when every trained
/// number makes a step of the same size with a random sign (Adam at its start):
///   √((m·rms(K))² + rms(Σ_j W^j)²),  since every W^j gets the same gradient.
/// An estimate for a linear control with the learning rate of Router Upcycling.
double effective_lr_scale(const RouterTensors& mixture);

}  // namespace penstock
