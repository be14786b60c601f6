// Reports for display: for a study, a text for a terminal and one self-contained HTML page,
// readable without network; for a run, a page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/report/text.h"
#include "penstock/study/runs/results.h"
#include "penstock/study/tables/text_samples.h"

namespace penstock::report {

/// The whole page. Charts are drawn by Chart.js, which is part of the page; heat maps, bars and
/// tables are plain HTML. No address outside the page is loaded.
/// REQUIRES: results that are not empty().
std::string report_page(const study::StudyResults& results);

/// The page of one run, without the parts that compare several runs. `samples` may be none.
std::string run_page(const study::RunRow& run, const std::string& command,
                     const std::optional<study::TextSamples>& samples);

/// The same results as text, in lines of up to `width` columns: the table, what diverged, paired
/// differences, and what was measured besides.
std::string results_text(const study::StudyResults& results, std::size_t width = kAnyWidth);

/// The sections after the results, in text and page: published ones, and every measurement's
/// sections.
std::vector<study::Section> study_sections(const study::StudyResults& results,
                                           study::Variants variants);

/// results.txt and report.html in a study's output folder.
void write_study_pages(const study::StudyResults& results, const std::string& output);

/// The page of the directory of a run (finished or not), of a fine-tuning or of a study (which
/// holds results.json). Throws Error when the directory is neither.
std::string report_of(const std::string& directory);
/// Writes it into the directory, as report.html. Returns its path.
std::string write_report(const std::string& directory);
/// The same, for the directory of a run.
void write_run_report(const std::string& run_directory);

}  // namespace penstock::report
