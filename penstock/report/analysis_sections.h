// What an analysis says of the routing by step, token and domain, as data for a page and for a
// terminal.
#pragma once

#include <string>
#include <vector>

#include "penstock/analysis/analysis.h"
#include "penstock/study/table.h"

namespace penstock::report {

/// Flips between checkpoints; active experts by frequency and surprisal; each expert's tokens, of
/// the middle layer unfolded; load and active experts by domain. Where one says nothing, why.
std::vector<study::Section> routing_sections(const analysis::Analysis& a);

/// A section that says why there is nothing else in it.
study::Section refusal(const std::string& title, const std::string& reason);

/// "0", "1", .. E − 1.
std::vector<std::string> expert_names(const analysis::Analysis& a);

}  // namespace penstock::report
