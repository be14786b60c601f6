// Makes reports. A study has a text for a terminal and one self-contained HTML page, which needs no
// network; a run has such a page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/report/text.h"
#include "penstock/study/runs/results.h"
#include "penstock/study/tables/text_samples.h"

namespace penstock::report {

/// The page of a study. Charts are drawn by Chart.js, which is part of the page; heat maps, bars
/// and tables are plain HTML. The page loads nothing from outside.
/// REQUIRES: results that are not empty().
std::string report_page(const study::StudyResults& results);

/// The page of one run, without the parts that compare several runs. `samples` may be empty.
std::string run_page(const study::RunRow& run, const std::string& command,
                     const std::optional<study::TextSamples>& samples);

/// A study's results as text, in lines of up to `width` columns: the table, diverged runs, paired
/// differences, and the additional measurements.
std::string results_text(const study::StudyResults& results, std::size_t width = kAnyWidth);

/// The sections after the results, for text and page: published results, and every measurement's
/// sections.
std::vector<study::Section> study_sections(const study::StudyResults& results,
                                           study::Variants variants);

/// Writes results.txt and report.html into a study's output folder.
void write_study_pages(const study::StudyResults& results, const std::string& output);

/// The page of the directory of a run (finished or not), of a fine-tuning or of a study (which has
/// results.json). Throws Error if the directory is none of these.
std::string report_of(const std::string& directory);
/// Writes report_of(directory) to report.html in the directory. Returns its path.
std::string write_report(const std::string& directory);
/// Writes the report of a run into its directory.
void write_run_report(const std::string& run_directory);

}  // namespace penstock::report
