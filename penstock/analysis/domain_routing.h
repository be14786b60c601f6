// The experts of each domain out of an evaluation. What is said of them is domains.h's.
#pragma once

#include <vector>

#include "penstock/analysis/domains.h"
#include "penstock/eval/perplexity.h"

namespace penstock::analysis {

/// Of each domain that was read, by name; none where nothing is assigned.
std::vector<DomainRouting> domain_routing(const Evaluation& evaluation);

}  // namespace penstock::analysis
