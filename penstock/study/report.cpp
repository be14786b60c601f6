// Directories to report.html.
#include "penstock/study/report.h"

#include <filesystem>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/finetune/run_record.h"
#include "penstock/study/config_hash.h"
#include "penstock/study/finetune_page.h"
#include "penstock/study/run_reader.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

std::string write_page(const std::string& page, const fs::path& directory) {
  const std::string path = (directory / "report.html").string();
  write_file_atomically(real_file_system(), path, page);
  return path;
}

}  // namespace

void write_run_report(const std::string& run_directory) {
  study::RunRow row = study::read_run(run_directory);
  const std::string name = study::plain_setting(row.settings, "name");
  if (!name.empty()) row.label = name;
  const std::string command = "penstock train " + shell_quoted(run_directory + "/config.toml") +
                              " --out " + shell_quoted(run_directory + "-again");
  write_page(study::run_page(row, command, study::read_text_samples(run_directory)), run_directory);
}

std::string write_report(const std::string& directory) {
  const fs::path folder(directory);
  if (fs::exists(folder / "results.json")) {
    const auto results = study::read_results((folder / "results.json").string());
    PENSTOCK_CHECK(!results.rows.empty() || !results.tables.empty(), directory,
                   ": no run of this study has finished yet");
    return write_page(study::report_page(results), folder);
  }
  PENSTOCK_CHECK(fs::exists(folder / "metrics.jsonl"), directory,
                 ": holds neither results.json (a study) nor metrics.jsonl (a run)");
  if (is_finetuning(directory)) {
    const std::string path = (folder / "report.html").string();
    write_file_atomically(real_file_system(), path, study::finetune_page(directory));
    return path;
  }
  write_run_report(directory);
  return (folder / "report.html").string();
}

}  // namespace penstock
