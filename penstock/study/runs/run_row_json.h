// A row as results.json and rows.json have it, with what measurements add to it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/study/runs/run_row.h"

namespace penstock::study {

/// A row of results.json, with what was measured besides.
nlohmann::json to_json(const RunRow& row);
/// Throws Error naming `where` for a missing key or a wrong type.
RunRow row_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace penstock::study
