// Converts rows to and from the JSON of results.json and rows.json, including the measurements'
// objects.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/study/runs/run_row.h"

namespace penstock::study {

/// A row of results.json, with its additional measurements.
nlohmann::json to_json(const RunRow& row);
/// Throws Error naming `where` for a missing key or a wrong type.
RunRow row_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace penstock::study
