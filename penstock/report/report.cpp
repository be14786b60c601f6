#include "penstock/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/finetune/run_record.h"
#include "penstock/models/model_config.h"
#include "penstock/report/pages.h"
#include "penstock/report/sections.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/study/measurement.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_reader.h"
#include "penstock/train/checkpoints/chosen_checkpoint.h"

namespace penstock::report {

using namespace study;

namespace {

namespace fs = std::filesystem;

std::string write_page(const std::string& page, const fs::path& directory) {
  const std::string path = (directory / "report.html").string();
  write_file_atomically(real_file_system(), path, page);
  return path;
}

}  // namespace

std::vector<Section> study_sections(const StudyResults& results, Variants variants) {
  std::vector<Section> out;
  if (auto published = published_results(variants, results.comparison))
    out.push_back(std::move(*published));
  for (const auto& one : plain_measurements())
    for (Section& section : one->sections(results.rows, results.comparison))
      out.push_back(std::move(section));
  return out;
}

std::string results_text(const StudyResults& results, std::size_t width) {
  if (results.empty()) return "no finished runs\n";
  const auto variants = summarize(results.rows);
  std::string out;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) out += (out.empty() ? "" : "\n") + part;
  };
  if (!variants.empty() || !results.diverged.empty())
    add(section_text(results_section(variants, results), width));
  if (const Table regulariser = regulariser_table(variants); !regulariser.rows.empty())
    add(table_text(regulariser, width));
  for (const auto& table : results.tables) add(table_text(table, width));
  for (const auto& section : study_sections(results, variants)) add(section_text(section, width));
  if (!std::ranges::all_of(variants, &VariantSummary::causal))
    add(wrapped(fmt::format("not causal: {}", kNotCausal), width));
  if (std::ranges::any_of(variants, &VariantSummary::by_thresholds))
    add(wrapped(fmt::format("by thresholds: {}", kByThresholds), width));
  return out;
}

void write_study_pages(const StudyResults& results, const std::string& output) {
  write_file_atomically(real_file_system(), fs::path(output) / "results.txt",
                        results_text(results));
  write_page(report_page(results), output);
}

namespace {

std::string run_report(const std::string& run_directory) {
  RunRow row = read_run(run_directory);
  const std::string name = plain_setting(row.settings, "name");
  if (!name.empty()) row.label = name;
  const std::string command = "penstock train " + shell_quoted(run_directory + "/config.toml") +
                              " --out " + shell_quoted(run_directory + "-again");
  return run_page(row, command, read_text_samples(run_directory));
}

}  // namespace

void write_run_report(const std::string& run_directory) {
  write_page(run_report(run_directory), run_directory);
}

std::string report_of(const std::string& directory) {
  const fs::path folder(directory);
  if (fs::exists(folder / "results.json")) {
    const auto results = read_results((folder / "results.json").string());
    PENSTOCK_CHECK(!results.empty(), directory, ": no run of this study has finished yet");
    return report_page(results);
  }
  const bool run = fs::exists(folder / "metrics.jsonl") || fs::exists(folder / "finished.json") ||
                   is_run_directory(directory);
  PENSTOCK_CHECK(run, directory.empty() ? "\"\"" : directory,
                 ": holds neither results.json (a study) nor metrics.jsonl (a run); name the "
                 "folder of a study or of a run");
  return is_finetuning(directory) ? finetune_page(directory) : run_report(directory);
}

std::string write_report(const std::string& directory) {
  return write_page(report_of(directory), directory);
}

}  // namespace penstock::report
