// `penstock report`: draws the page of a run or a study again.
#include "penstock/report/report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "penstock/cli/commands.h"

namespace penstock {

void add_report_command(CLI::App& app) {
  auto directory = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("report", "Write report.html for a run or a study");
  command->add_option("DIR", *directory, "directory of a run or of a study")->required();
  command->footer(
      "Examples:\n"
      "  penstock report runs/remoe       a run, also one that has not finished\n"
      "  penstock report studies/demo     a study, from its results.json\n"
      "The page needs no other file and no network.");
  command->callback([directory] { fmt::print("{}\n", report::write_report(*directory)); });
}

}  // namespace penstock
