// The frame of every page: head, style, the charts' data and the script that draws them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "penstock/study/table.h"

namespace penstock::report {

/// A whole HTML page around `body`. The page's script reads `data`. The page loads nothing from
/// outside.
std::string page(const std::string& title, const std::string& body, const nlohmann::json& data);

/// {"charts": [...]}, the charts' data for the page's script.
nlohmann::json drawn_by_script(std::span<const study::Chart> charts);

}  // namespace penstock::report
