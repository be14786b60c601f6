// The page of `penstock analyse --html`.
#pragma once

#include <string>

#include "penstock/analysis/analysis.h"

namespace penstock::study {

/// One self-contained HTML file with the analysis's numbers and charts.
std::string analysis_page(const analysis::Analysis& analysis);

}  // namespace penstock::study
