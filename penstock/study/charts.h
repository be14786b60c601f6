// The line charts over the steps of training: what is drawn, and what the page says of it.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "penstock/study/results.h"

namespace penstock::study {

/// A chart with its place on the page.
struct Chart {
  std::string section;  ///< "loss", "training" or "routing"
  std::string title, caption;
  nlohmann::json drawn;  ///< "id", "series", axes, bands, lines: what the page's script reads
};

/// Every chart for which some variant has a curve. Series of the section "loss" also say what a
/// step had cost by then ("costs": tokens, FLOPs, seconds), where every one of them knows it.
std::vector<Chart> training_charts(std::span<const VariantSummary> variants);

/// A heading, `under` it more HTML, and that section's charts as cards; "" where it has none.
std::string chart_section(std::span<const Chart> charts, const std::string& section,
                          const std::string& heading, const std::string& under = "");

}  // namespace penstock::study
