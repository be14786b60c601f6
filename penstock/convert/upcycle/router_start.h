// The routers that an upcycled model starts with: random ones, and Router Upcycling's, made of the
// parent's attention heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "penstock/convert/upcycle/upcycle.h"

namespace penstock {

/// A scorer's parameters by name, f32.
using RouterTensors = std::map<std::string, at::Tensor>;

/// Query maps and keys of one layer's groups, of a `mixture` scorer.
///   W^j = rows of W_Q of group j's heads, one head after another, [d', d];  K_i = their mean keys
/// With a query bias also `query_bias`, the same rows of b_Q.
/// @param query_weight [H·hd, d], @param query_bias [H·hd] or undefined, @param keys [H, hd] K_A
RouterTensors mixture_of_heads(const HeadGroups& groups, const at::Tensor& query_weight,
                               const at::Tensor& query_bias, const at::Tensor& keys);

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

/// All layers' routers for a config; fills in the report what it decided. Of Router Upcycling's
/// `queries` are missing where nothing but the file wants them: query_maps() makes them.
/// Draws are functions of options.seed and the layer. With granularity, rows of the first E'
/// experts are repeated over the G virtual groups, so that whole sets of shards are chosen at
/// first. Throws Error for scorers that have no row per expert to repeat, and where calibration
/// text is missing.
std::vector<RouterTensors> router_starts(const ModelSource& parent, const ModelConfig& config,
                                         const UpcycleOptions& options, UpcycleReport& report,
                                         const KeyCache& keys = {},
                                         const ConversionProgress& progress = {});

}  // namespace penstock
