// Makes routers from the parent's attention heads (Router Upcycling): query maps and keys, the
// single matrix that they fold into, and a correction for the norm before the experts.
// head_groups.h groups the heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "penstock/convert/upcycle/head_groups.h"
#include "penstock/convert/upcycle/router_tensors.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/models/model_source.h"
#include "penstock/ops/initial_draws.h"

namespace penstock {

/// The query maps and keys of a `mixture` scorer, from one layer's groups.
///   W^j = rows of W_Q of group j's heads, one head after another, [d', d];  K_i = their mean keys
/// With a query bias also `query_bias`, the same rows of b_Q.
/// @param query_weight [H·hd, d], @param query_bias [H·hd] or undefined, @param keys [H, hd] K_A
RouterTensors mixture_of_heads(const HeadGroups& groups, const at::Tensor& query_weight,
                               const at::Tensor& query_bias, const at::Tensor& keys);

/// The query projection of a layer of the parent, [H·hd, d] f32. With options.correct_gain it is
/// corrected by with_corrected_gain().
at::Tensor query_weight(const ModelSource& parent, const UpcycleOptions& options,
                        std::int64_t layer);

/// The query projection's bias, [H·hd] f32; undefined if it has none, or if options.query_bias
/// drops it.
at::Tensor query_bias(const ModelSource& parent, const UpcycleOptions& options, std::int64_t layer);

/// Makes the `queries` tensor alone, for a layer of the parent and its groups.
at::Tensor query_maps(const ModelSource& parent, const UpcycleOptions& options,
                      const HeadGroups& groups, std::int64_t layer);

/// Corrects the query projection so that it computes the same from the experts' input as from
/// attention's input:
///   W_Q · diag(g_attention / g_experts),
/// Both inputs come from RMS norms, x = g ⊙ n(h), and W_Q was trained with g_attention. The
/// residual streams h before the two norms still differ. A feature with g_experts = 0 is dropped,
/// because its input is 0.
/// @param query_weight [H·hd, d], @param attention_gain [d], @param expert_gain [d]
at::Tensor with_corrected_gain(const at::Tensor& query_weight, const at::Tensor& attention_gain,
                               const at::Tensor& expert_gain);

/// Adds noise N(0, (s/10)²), s² the key's mean square, to each entry of a key that equals an
/// earlier key, so that no two experts stay tied. Keys are equal only if heads share them
/// (grouped-query attention). Returns the number of these keys. This is our choice; the paper's
/// model has a key per head.
std::int64_t break_ties(at::Tensor& keys, const InitialDraws& draws);

/// The single matrix (and bias) that a sum-pooled mixture with one key per expert folds into:
/// `weight` [E, d] and `bias` [E].
RouterTensors collapsed_mixture(const RouterTensors& mixture);

/// The ratio by which an entry of the folded matrix moves more than a plain router's, if every
/// trained parameter makes a step of the same size with a random sign (Adam at its start):
///   √((m·rms(K))² + rms(Σ_j W^j)²),  since every W^j gets the same gradient.
/// It estimates the learning rate of a linear control that matches Router Upcycling.
double effective_lr_scale(const RouterTensors& mixture);

}  // namespace penstock
