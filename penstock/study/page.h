// The frame of every page: head, style, the charts' data and the script that draws them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock::study {

/// A whole HTML page around `body`; `charts` is what charts.h describes. Nothing outside the page
/// is loaded.
std::string page(const std::string& title, const std::string& body, const nlohmann::json& charts);

/// A card with the canvas of the chart of that id. `title` and `caption` are plain text.
std::string chart_card(const std::string& id, const std::string& title, const std::string& caption);

}  // namespace penstock::study
