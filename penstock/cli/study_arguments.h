// The options of `penstock study`, and command lines that repeat them.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/study/study_hooks.h"

namespace penstock {

struct StudyArguments {
  std::string study, out, results, scale;
  std::vector<std::string> overrides;
  bool report_only = false, retry_diverged = false, wide = false;
  bool json = false, quiet = false, force = false, keys = false;
  int jobs = 1, processes = 0;
  std::string only;         // VARIANT:SEED
  std::optional<int> port;  // of --serve; none without --serve
};

/// Adds the options and the help.
void add_study_options(CLI::App& command, StudyArguments& options);

/// The command that continues the study.
std::string command_line(const StudyArguments& options);
/// The command line of one run of the study. Its process shares the cores with the other runs.
std::vector<std::string> command_of_run(const StudyArguments& options, const std::string& output);

/// The run that --only names. Throws Error unless the text is VARIANT:SEED or empty.
std::optional<study::RunKey> only_run(const std::string& text);

}  // namespace penstock
