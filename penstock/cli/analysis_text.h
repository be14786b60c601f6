// Writes an analysis as tables for a terminal.
#pragma once

#include <string>

#include "penstock/analysis/analysis.h"

namespace penstock {

std::string analysis_text(const analysis::Analysis& analysis);

}  // namespace penstock
