// The report of an upcycling.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/convert/upcycle/head_groups.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The scaling of a router's logits.
struct LogitScale {
  double entropy_before = 0;  ///< nats, mean over calibration tokens
  double factor = 1;
};

/// The report, for people and for upcycling.json.
struct UpcycleReport {
  ModelConfig config;
  std::vector<HeadGroups> groups;      ///< per layer; empty if no heads were grouped
  std::vector<at::Tensor> similarity;  ///< per layer [H, H] f64
  /// Per layer, number of keys that were equal to another key and were changed by noise.
  std::vector<std::int64_t> tied;
  /// Per layer [E] i64, number of calibration tokens nearest to each expert's row, if rows are
  /// means.
  std::vector<at::Tensor> cluster_sizes;
  std::vector<double> logit_sd;          ///< per layer, if logits were matched
  std::vector<LogitScale> logit_scales;  ///< per layer, if options.start_entropy is set
  /// Per layer, the mean sum of a token's gates before any scaling. Measured if
  /// measures_gate_sums() and there was a text.
  std::vector<double> gate_sums;
  double lr_scale = 1;
  double shard_scale = 1;  ///< a
  std::int64_t calibration_tokens = 0, calibration_window = 0;
  std::string without_tokenizer;  ///< why no tokenizer was copied; "": one was copied
  std::uint64_t bytes = 0;
};

}  // namespace penstock
