// What a server says of a run's or a study's directory: its curves and its report.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "penstock/serve/reply.h"

namespace penstock {

/// /runs, the page of the curves, with its data at /v1/runs; and /report.
std::map<std::string, std::function<serve::Reply()>> results_places(const std::string& directory);

}  // namespace penstock
