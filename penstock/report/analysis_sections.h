// Makes sections, for a page or a terminal, of an analysis's results on routing by step, token and
// domain.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/analysis/analysis.h"
#include "penstock/study/table.h"

namespace penstock::report {

/// Sections on flips between checkpoints, on active experts by frequency and surprisal, on each
/// expert's tokens (the page collapses all layers but the middle one), and on load and active
/// experts by domain. A section without results says why.
std::vector<study::Section> routing_sections(const analysis::Analysis& a);

/// A section with the sums of the gates and the routers' gradient by layer and checkpoint, beside
/// the experts' similarity.
study::Section gradient_section(const analysis::Analysis& a);

/// "step 200", or "this model".
std::string step_text(const std::optional<std::int64_t>& step);

/// The name of an MoE layer, by its number among all layers of the model: "layer 3".
std::string layer_name(const analysis::Analysis& a, std::size_t layer);

/// A chart with one line per layer over the snapshots.
nlohmann::json over_steps(
    const analysis::Analysis& a, const char* id, const char* y_title,
    const std::function<double(std::size_t layer, std::size_t snapshot)>& value);

/// A section that says why there is nothing else in it.
study::Section refusal(const std::string& title, const std::string& reason);

/// "0", "1", .. E − 1.
std::vector<std::string> expert_names(const analysis::Analysis& a);

}  // namespace penstock::report
