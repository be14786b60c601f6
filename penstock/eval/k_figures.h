// What one number of experts per token gives and costs, as plain numbers. How it is measured is in
// by_k.h.
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
  double flops_per_token = 0;  ///< useful, forward
  double tokens_per_second = 0;
  double peak_memory_bytes = 0;  ///< of the process while it measured
};

/// {"k", "loss", "perplexity", "bits_per_byte", "flops_per_token", "tokens_per_second",
/// "peak_memory_bytes"}; a k of 0 is null.
nlohmann::ordered_json to_json(const KFigures& figures);
/// What to_json wrote. Throws Error naming `where` for a missing figure or a wrong type.
KFigures k_figures_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace penstock
