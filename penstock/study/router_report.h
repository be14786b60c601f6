// How sure a finished run's routers are, kept with its row and in the run's folder (routers.json).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace penstock::study {

/// Entropy of one layer's router over a split's tokens, in nats; and of the model as its seed (or
/// the model it started from) had it before the first step.
struct LayerEntropy {
  double mean = 0, sd = 0, initial_mean = 0, initial_sd = 0;
};

/// A token's distributions over the experts, softmax of all logits, by layer.
struct TokenDistributions {
  std::string context;
  std::vector<std::vector<double>> probabilities;  ///< [L][E]
};

struct RouterReport {
  std::string checkpoint;  ///< "final" or "best"
  std::int64_t step = 0;
  std::string split;
  double tokens = 0;
  std::string refused;  ///< why there is no entropy; "" where there is
  std::vector<LayerEntropy> layers;
  std::vector<TokenDistributions> samples;
};

nlohmann::json to_json(const RouterReport& report);
/// What to_json wrote. Throws Error naming `where`.
RouterReport router_report_from_json(const nlohmann::json& object, const std::string& where);

/// routers.json of a run, complete or not at all.
void write_router_report(const RouterReport& report, const std::string& run_directory);
/// What write_router_report wrote there, if anything. Throws Error naming a damaged file.
std::optional<RouterReport> read_router_report(const std::string& run_directory);

}  // namespace penstock::study
