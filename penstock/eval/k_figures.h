// A model's quality and cost at one number of experts per token, as plain numbers. by_k.h measures
// them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock {

struct KFigures {
  std::int64_t k = 0;  ///< experts per token, granularity applied; 0: the model has no k to set
  double loss = 0;     ///< nats per token
  double perplexity = 0;
  double bits_per_byte = 0;
  double flops_per_token = 0;  ///< useful FLOPs of the forward pass
  double tokens_per_second = 0;
  double peak_memory_bytes = 0;  ///< of the process during the measurement
};

/// {"k", "loss", "perplexity", "bits_per_byte", "flops_per_token", "tokens_per_second",
/// "peak_memory_bytes"}; a k of 0 is null.
nlohmann::ordered_json to_json(const KFigures& figures);
/// Reads the output of to_json(). Throws Error with `where` for a missing figure or a wrong type.
KFigures k_figures_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace penstock
