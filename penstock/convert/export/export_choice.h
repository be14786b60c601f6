// Chooses an architecture of other programs that computes what a model computes, or says why none
// does. convert/export/portable_source.h makes the tensors.
#pragma once

#include <string>
#include <vector>

#include "penstock/convert/export/export_target.h"

namespace penstock {

/// The architectures' names, in the order of trying.
const std::vector<std::string>& export_architectures();

/// The target for a model with the config.
/// @param architecture  one of export_architectures(), or empty: the first that fits, and of
///                      Hugging Face's format Penstock's own class where none does
/// Throws NotPortableError, with every reason, if none fits or the given one does not. The
/// requirements (models/formats/architectures.h lists each architecture's parts):
///   llama, qwen2      dense models; q, k and v biases for qwen2 alone (zeros where there are none)
///   mixtral           gates that sum to one, no biases, no shared expert
///   qwen2moe          a shared expert with a gate (one that gives 0 where there is none; a gate of
///                     1/2 and twice the expert where the model's has none), biases
///   olmoe             norms of q and k over all heads
///   qwen3moe          norms of each head of q and k; in GGUF gates that sum to one
///   deepseek          shared experts without a gate, as wide as so many experts; in GGUF one or
///                     more of them
/// olmoe must be given by name if programs other than transformers would ignore a part of the
/// model: gates divided by their sum, clip_qkv, an epsilon other than 1e-5. Hugging Face's
/// qwen2moe, olmoe, qwen3moe and deepseek take gates of either kind, GGUF's, but qwen3moe, only
/// probabilities that are not renormalised. With k = E the two kinds are one. Layers without
/// experts fit Hugging Face's qwen2moe and qwen3moe anywhere, and deepseek where they are the first
/// ones. The width of q must be d but for llama, mixtral and qwen3moe.
/// Sources: the classes of transformers and the graphs of llama.cpp of these names.
ExportTarget choose_export_target(const ModelConfig& config, ExportFormat format,
                                  const std::string& architecture);

/// Whether an export finds an architecture that computes models of the config. It does not see the
/// weights: a router's bias that is not 0 may still be refused.
bool can_export(const ModelConfig& config, ExportFormat format);

/// A sentence for those who are about to train: the export that the model would have is lost once
/// its routers have learnt a bias, and what keeps it. "" if they learn none, or if the config has
/// no export to lose.
std::string export_lost_by_training(const ModelConfig& config);

}  // namespace penstock
