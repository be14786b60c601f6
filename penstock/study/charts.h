// What the page's script draws: one JSON object per chart.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "penstock/study/results.h"

namespace penstock::study {

/// {"charts": [{"id", "series", axes, bands, lines}, ...]}: "loss", "validation", and where a
/// variant routes, "sparsity", "active" and "lambda". A chart without any series is left out.
nlohmann::json chart_data(std::span<const VariantSummary> variants);

/// Whether chart_data has the chart of that id.
bool has_chart(const nlohmann::json& data, const char* id);

}  // namespace penstock::study
