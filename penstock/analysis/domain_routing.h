// Reads each domain's experts from an evaluation. Measures of them are in domains.h.
#pragma once

#include <vector>

#include "penstock/analysis/domains.h"
#include "penstock/eval/perplexity.h"

namespace penstock::analysis {

/// The routing of each domain that was read, sorted by name. Empty if the router assigns no tokens
/// to experts.
std::vector<DomainRouting> domain_routing(const Evaluation& evaluation);

}  // namespace penstock::analysis
