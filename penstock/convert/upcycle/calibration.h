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
  bool after_rope = false;  ///< keys as attention multiplies them, rotated by their positions
  bool bias = true;         ///< with the bias of the key projection, where there is one
};

/// The mean key of every head, K_A.
///   K_A[h] = mean over tokens of W_K^h · norm(x) + b_K^h
/// before rotary positions unless told otherwise: rotated keys of high frequencies cancel out.
/// Source: Router Upcycling, section 3.2; 4.1 says over how many tokens.
///
/// @param dense    whose matrices are read where they lie
/// @param windows  [n, L] i64 token ids
/// @return per layer [H, hd] f32, key heads repeated to the query heads that share them. Sums are
///         taken in f64.
/// Throws Error for a model with normed or clipped keys. Cost: one forward pass without the head.
std::vector<at::Tensor> mean_keys(const ModelSource& dense, const at::Tensor& windows,
                                  const KeyOptions& options,
                                  const ConversionProgress& progress = {});

/// Shows the inputs of the feed-forward layers, [B·L, d] f32 of some windows at a time, layer by
/// layer; nothing is kept. They are seen through routers: the model with two experts that both are
/// its feed-forward and share the weight of each token computes the same. Cost: a forward pass with
/// each feed-forward twice.
void visit_feed_forward_inputs(
    const ModelSource& dense, const at::Tensor& windows,
    const std::function<void(std::int64_t layer, const at::Tensor& inputs)>& visit,
    const ConversionProgress& progress = {});

}  // namespace penstock
