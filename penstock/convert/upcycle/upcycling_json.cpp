#include "penstock/convert/upcycle/upcycling_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "penstock/io/readable_json.h"

namespace penstock {
namespace {

/// Rounds to four digits, which are enough for a map of similarities.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }

nlohmann::ordered_json rows_of(const at::Tensor& matrix) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  const auto entries = matrix.accessor<double, 2>();
  for (std::int64_t i = 0; i < entries.size(0); ++i) {
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    for (std::int64_t j = 0; j < entries.size(1); ++j) row.push_back(rounded(entries[i][j]));
    out.push_back(row);
  }
  return out;
}

}  // namespace

std::string upcycling_json(const ModelSource& parent, const UpcycleOptions& options,
                           const UpcycleReport& report) {
  nlohmann::ordered_json out = {{"parent", parent.origin()},
                                {"method", options.method},
                                {"scorer", resolve(report.config.router).scorer},
                                {"experts", options.experts},
                                {"k", options.k},
                                {"granularity", options.granularity},
                                {"seed", options.seed},
                                {"noise", options.noise},
                                {"shared_expert_width", report.config.moe.shared_width},
                                {"shared_expert_copy", options.shared_copy},
                                {"renormalise", options.renormalise},
                                {"lr_scale", report.lr_scale}};
  if (options.untie) out["untied"] = true;
  if (options.granularity > 1) {
    out["scale"] = word(options.scale);
    out["shard_scale"] = report.shard_scale;
  }
  if (report.calibration_tokens > 0)
    out["calibration"] = {
        {"text", options.calibration},         {"tokens", report.calibration_tokens},
        {"window", report.calibration_window}, {"keys_after_rope", options.keys_after_rope},
        {"key_bias", options.key_bias},        {"query_bias", options.query_bias},
        {"grouping", word(options.grouping)},  {"correct_gain", options.correct_gain}};
  if (options.directions) out["directions"] = word(*options.directions);
  for (const at::Tensor& sizes : report.cluster_sizes)
    out["cluster_sizes"].push_back(std::vector<std::int64_t>(
        sizes.data_ptr<std::int64_t>(), sizes.data_ptr<std::int64_t>() + sizes.numel()));
  if (!report.logit_sd.empty()) out["matched_logit_sd"] = report.logit_sd;
  if (!report.logit_scales.empty()) {
    out["start_entropy"] = options.start_entropy;
    for (const LogitScale& scale : report.logit_scales)
      out["logit_scales"].push_back(
          {{"entropy_before", scale.entropy_before}, {"factor", scale.factor}});
  }
  if (!report.gate_sums.empty()) out["gate_sums"] = report.gate_sums;
  if (!report.groups.empty()) {
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (std::size_t l = 0; l < report.groups.size(); ++l)
      layers.push_back({{"parts_of_a_head", report.groups[l].parts},
                        {"routers", report.groups[l].queries},
                        {"keys", report.groups[l].keys},
                        {"tied_keys", report.tied[l]},
                        {"similarity", rows_of(report.similarity[l])}});
    out["layers"] = layers;
  }
  return readable_text(out);
}

}  // namespace penstock
