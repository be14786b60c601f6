// An analysis as tables on a terminal.
#pragma once

#include <string>

#include "penstock/analysis/analysis.h"
#include "penstock/analysis/published_tables.h"

namespace penstock {

std::string analysis_text(const analysis::Analysis& analysis);
std::string published_text(const analysis::PublishedTable& table);

}  // namespace penstock
