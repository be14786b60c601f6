// Scales the logits of an upcycled model's routers at the start of training. router_start.h chooses
// the directions of the routers' rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "penstock/convert/conversion_progress.h"
#include "penstock/convert/upcycle/router_tensors.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/convert/upcycle/upcycle_report.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// Mean entropy of the softmax over experts, in nats.
///   H = mean_t -Σ_e p_te ln p_te,  p_t = softmax(z_t)
/// @param logits [T, E].  Computed in f64.
double mean_entropy(const at::Tensor& logits);

/// The factor f > 0 with mean_entropy(f·logits) = entropy, to 1e-6 nats.
/// H falls as f grows, from ln E at 0 towards ln of the number of equal highest logits; f is found
/// by bisection of ln f over [1e-9, 1e9] relative to the logits' scale.
/// @param logits [T, E].  @param entropy nats, above 0 and below ln E
/// Throws Error if no factor gives that entropy: all logits of every token are equal, or experts
/// are tied. Cost: about 60 passes over the logits.
double factor_for_entropy(const at::Tensor& logits, double entropy);

/// The logits [T, E] of a router with one matrix and an optional bias.  @param inputs [T, d]
at::Tensor folded_logits(const RouterTensors& plain, const at::Tensor& inputs);

/// Scales each layer's keys so that the single matrix that the mixture folds into has the mean
/// entropy `entropy` over the calibration tokens. The mixture sums over its routers and has a key
/// per expert.
/// @param heads  mixtures of attention heads, by layer, changed in place
void heads_to_entropy(std::vector<RouterTensors>& heads, const ModelSource& parent,
                      const at::Tensor& windows, double entropy,
                      const ConversionProgress& progress = {});

/// Multiplies each layer's router so that its softmax over the calibration tokens has the mean
/// entropy options.start_entropy. The factor multiplies the matrix, so a folded or exported router
/// has the same entropy. Reads at most 8192 tokens, spread over the windows.
/// @param routers  by MoE layer, changed in place
/// @param windows  [n, L] i64
/// Records in the report the entropy before scaling and the factor of each layer.
/// Throws Error for scorers without a parameter that scales their logits.
void scale_to_entropy(std::vector<RouterTensors>& routers, const ModelSource& parent,
                      const ModelConfig& config, const at::Tensor& windows,
                      const UpcycleOptions& options, UpcycleReport& report,
                      const ConversionProgress& progress = {});

/// Puts the sum of a token's gates, as the mean over the calibration tokens, into report.gate_sums
/// by layer. The routers choose as they do outside training, with the first state of their
/// balancers. Their inputs are the parent's, which in the first layer are the model's too. At most
/// 8192 tokens are read, spread over the windows. If the gates grow with the logits (ReLU),
/// multiplies each layer's router so that this mean is one (G with granularity G). The experts,
/// which are copies of one feed-forward, then give its output times a factor that varies by token
/// around one.
/// @param routers  by MoE layer, changed in place;  @param windows  [n, L] i64
/// Throws Error if such gates are 0 for every token, or if no parameter scales the logits.
void measure_gate_sums(std::vector<RouterTensors>& routers, const ModelSource& parent,
                       const ModelConfig& config, const at::Tensor& windows, UpcycleReport& report,
                       const ConversionProgress& progress = {});

}  // namespace penstock
