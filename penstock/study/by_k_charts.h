// Quality against experts per token and against FLOPs, drawn: HyperRouter's Figure 1.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "penstock/eval/k_figures.h"

namespace penstock::study {

/// One model, or one variant's seeds, at one number of experts per token.
struct KSpread {
  std::int64_t k = 0;                  ///< 0: the model has no k, the point holds for all
  double megaflops = 0;                ///< forward, per token
  double mean = 0, low = 0, high = 0;  ///< quality over seeds
};

struct KSeries {
  std::string label;
  std::size_t variant = 0;  ///< colour
  double trained_k = 0;     ///< the point that is ringed; 0: none
  std::vector<KSpread> points;
};

/// Chart descriptions "by-k" and "by-flops", as chart_data makes them; `quality` names the y axis.
/// A series with one point for all k is a level line in the first. Empty without points.
nlohmann::json by_k_charts(std::span<const KSeries> series, const std::string& quality);

/// Both charts as cards side by side.
std::string by_k_chart_cards(const std::string& quality, bool several_seeds);

/// A page of its own for one model measured at several k: table and both charts.
std::string by_k_page(const std::string& model, const std::string& measured,
                      std::span<const KFigures> points, double trained_k);

}  // namespace penstock::study
