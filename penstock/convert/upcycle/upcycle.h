// Upcycling: a dense model's directory becomes an MoE's, its feed-forwards the experts, its routers
// random or made of its attention heads. Training it is `penstock train`'s matter, checking it
// `penstock doctor`'s.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/convert/upcycle/head_groups.h"
#include "penstock/convert/upcycle/key_cache.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/models/files/model_source.h"

namespace penstock {

/// How a router's logits were scaled.
struct LogitScale {
  double entropy_before = 0;  ///< nats, mean over calibration tokens
  double factor = 1;
};

/// What was done, for people and for upcycling.json.
struct UpcycleReport {
  ModelConfig config;
  std::vector<HeadGroups> groups;      ///< per layer; empty where no heads were grouped
  std::vector<at::Tensor> similarity;  ///< per layer [H, H] f64
  std::vector<std::int64_t> tied;      ///< per layer, keys equal to another's, told apart by noise
  /// Per layer [E] i64, calibration tokens nearest to each expert's row, where rows are means.
  std::vector<at::Tensor> cluster_sizes;
  std::vector<double> logit_sd;          ///< per layer, where logits were matched
  std::vector<LogitScale> logit_scales;  ///< per layer, where options.start_entropy asked for it
  /// Per layer, what a token's gates summed to in the mean before they were scaled, if they were;
  /// where measures_gate_sums() and there was a text.
  std::vector<double> gate_sums;
  double lr_scale = 1;
  double shard_scale = 1;  ///< a
  std::int64_t calibration_tokens = 0, calibration_window = 0;
  std::string without_tokenizer;  ///< why none was copied; "": it was
  std::uint64_t bytes = 0;
};

/// The options with what k and `start` mean for this method filled in; the same again when
/// repeated. Throws Error for a method that has no router.
UpcycleOptions completed(UpcycleOptions options);

/// The config of the result. Throws Error for options that the method, the scorer or the parent do
/// not take.
ModelConfig upcycled_config(const ModelConfig& parent, const UpcycleOptions& options);

/// Where the rows of the routers' matrices are to point, as the options and the scorer say.
RouterDirections router_directions(const ModelConfig& config, const UpcycleOptions& options);

/// Whether the start is to be the parent's and gates need not sum to one, so that it is not quite.
bool measures_gate_sums(const ModelConfig& config, const UpcycleOptions& options);

/// Writes the MoE model directory `out`, complete or absent: config.json, model.safetensors,
/// tokenizer files, upcycling.json. Experts are the parent's feed-forwards (expert_tensor), all
/// else but the routers is copied bit for bit; routers are F32.
/// The same arguments give the same files. Memory: the parent as a model where text is read,
/// otherwise one tensor at a time.
/// Throws Error where `out` exists, and for everything that upcycled_config refuses.
/// Source: Sparse Upcycling, arXiv:2212.05055; routers see router_start.h.
/// @param keys  where mean keys are kept
UpcycleReport upcycle(const ModelSource& parent, const UpcycleOptions& options, FileSystem& fs,
                      const std::string& out, const KeyCache& keys = {},
                      const ConversionProgress& progress = {});

}  // namespace penstock
