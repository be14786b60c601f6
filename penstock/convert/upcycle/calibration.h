// Statistics of a dense model over a text: mean keys of attention heads, and inputs of
// feed-forwards, which are the inputs of an upcycled model's routers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/convert/conversion_progress.h"
#include "penstock/models/language_model.h"
#include "penstock/models/model_source.h"

namespace penstock {

struct KeyOptions {
  bool after_rope = false;  ///< keys after rotary position embedding
  bool bias = true;         ///< include the key projection's bias, if it has one
};

/// The mean key of every head, K_A.
///   K_A[h] = mean over tokens of W_K^h · norm(x) + b_K^h
/// By default before rotary positions: rotated keys of high frequencies cancel out.
/// Source: Router Upcycling, section 3.2; the number of tokens is from section 4.1.
///
/// @param dense  its matrices are read in place
/// @param windows  [n, L] i64 token ids
/// @return per layer [H, hd] f32; key heads are repeated for the query heads that share them.
///   Summed in f64.
/// Throws Error for a model with normed or clipped keys. Cost: one forward pass without the head.
std::vector<at::Tensor> mean_keys(const ModelSource& dense, const at::Tensor& windows,
                                  const KeyOptions& options,
                                  const ConversionProgress& progress = {});

/// Calls `visit` with the inputs of the feed-forward layers, [B·L, d] f32 for some windows at a
/// time, layer by layer; nothing is stored. To read them at routers, the dense model runs as an MoE
/// with two experts, which are copies of its feed-forward with gates that sum to one. This computes
/// the same function. Cost: a forward pass that computes each feed-forward twice.
void visit_feed_forward_inputs(
    const ModelSource& dense, const at::Tensor& windows,
    const std::function<void(std::int64_t layer, const at::Tensor& inputs)>& visit,
    const ConversionProgress& progress = {});

}  // namespace penstock
