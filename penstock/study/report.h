// The report: one self-contained HTML page for a study or a single run, readable without network.
#pragma once

#include <optional>
#include <string>

#include "penstock/study/results.h"
#include "penstock/study/text_samples.h"

namespace penstock::study {

/// The whole page. Charts are drawn by Chart.js, which is part of the page; heat maps, bars and
/// tables are plain HTML. No address outside the page is loaded.
/// REQUIRES: at least one row or table.
std::string report_page(const StudyResults& results);

/// The page of one run, of which nothing is said that would need several. `samples` may be none.
std::string run_page(const RunRow& run, const std::string& command,
                     const std::optional<TextSamples>& samples);

/// The results table and the paired differences as text for a terminal.
std::string results_table(const StudyResults& results);

}  // namespace penstock::study

namespace penstock {

/// Writes report.html into the directory of a run (finished or not) or of a study (which holds
/// results.json). Returns the page's path. Throws Error when the directory is neither.
std::string write_report(const std::string& directory);
/// The same, for the directory of a run.
void write_run_report(const std::string& run_directory);

}  // namespace penstock
