// A server's pages for a run's or a study's directory: its curves and its report.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "penstock/serve/reply.h"

namespace penstock {

/// Makes the answers to GET: /runs (the page of the curves), /v1/runs (its data) and /report.
std::map<std::string, std::function<serve::Reply()>> results_endpoints(
    const std::string& directory);

}  // namespace penstock
