// Chooses an architecture of other programs that computes the same function as a model, or gives
// the reasons why none does. convert/export/portable_source.h makes the tensors.
#pragma once

#include <string>
#include <vector>

#include "penstock/convert/export/export_target.h"

namespace penstock {

/// The architectures' names, in the order of trying.
const std::vector<std::string>& export_architectures();

/// The target for a model with the config.
/// @param architecture  one of export_architectures(), or empty: the first that fits; if none fits,
///                      Penstock's own class for Hugging Face's format
/// Throws NotPortableError, with every reason, if none fits or if the given one does not. The
/// requirements (models/formats/architectures.h lists each architecture's parts):
///   llama, qwen2      dense models; q, k and v biases for qwen2 only (zeros if the model has none)
///   mixtral           gates that sum to one, no biases, no shared expert
///   qwen2moe          biases, and a shared expert with a gate; a model without a shared expert
///                     gets one that gives 0; a missing gate becomes 1/2 and the expert is doubled
///   olmoe             norms of q and k over all heads
///   qwen3moe          norms of each head of q and k; in GGUF gates that sum to one
///   deepseek          shared experts without a gate, whose width is a multiple of an expert's; in
///                     GGUF at least one
/// olmoe must be given by name if programs other than transformers would ignore a part of the
/// model: gates divided by their sum, clip_qkv, an epsilon other than 1e-5. Hugging Face's
/// qwen2moe, olmoe, qwen3moe and deepseek take gates of either kind. GGUF's take only probabilities
/// that are not renormalised, except qwen3moe. With k = E the two kinds are equal. Layers without
/// experts fit Hugging Face's qwen2moe and qwen3moe anywhere, and deepseek if they come first. The
/// width of q must be d except for llama, mixtral and qwen3moe.
/// Sources: transformers' classes and llama.cpp's graphs of these names.
ExportTarget choose_export_target(const ModelConfig& config, ExportFormat format,
                                  const std::string& architecture);

/// Whether an export finds an architecture that computes models of the config. It does not read the
/// weights, so an export may still refuse a router's bias that is not 0.
bool can_export(const ModelConfig& config, ExportFormat format);

/// A warning before training that the model can no longer be exported once its routers have learnt
/// a bias, and how to avoid that. "" if they learn no bias, or if the config cannot be exported
/// anyway.
std::string export_lost_by_training(const ModelConfig& config);

}  // namespace penstock
