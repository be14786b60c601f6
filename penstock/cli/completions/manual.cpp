// `penstock manual`: manual pages and shell completions, for packages.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>

#include "penstock/base/atomic_files.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/completions/command_tree.h"
#include "penstock/cli/completions/completions.h"
#include "penstock/cli/completions/manual_pages.h"

namespace penstock {
namespace {

/// The day of SOURCE_DATE_EPOCH, so that builds of the same source give the same bytes; else today.
std::string date_of_pages() {
  const char* const epoch = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t now = epoch ? std::strtoll(epoch, nullptr, 10) : std::time(nullptr);
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
}

void write_manual(const CLI::App& app, const std::string& directory) {
  const CommandTree tree = command_tree(app);
  check_can_make(directory);
  const auto write = [&](const std::string& name, const std::string& text) {
    const auto path = std::filesystem::path(directory) / name;
    create_directories(real_file_system(), path.parent_path());
    write_file_atomically(real_file_system(), path.string(), text);
  };
  for (const auto& [name, text] : manual_pages(tree, date_of_pages()))
    write("man/man" + name.substr(name.rfind('.') + 1) + "/" + name, text);
  write("completions/penstock", bash_completion(tree));
  write("completions/_penstock", zsh_completion(tree));
  write("completions/penstock.fish", fish_completion(tree));
}

}  // namespace

void add_manual_command(CLI::App& app) {
  auto directory = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("manual", "Write the manual pages and completions for shells");
  command->add_option("DIR", *directory, "folder for man/ and completions/")
      ->required()
      ->transform(output_path());
  command->footer(
      "Examples:\n"
      "  penstock manual manual\n"
      "  MANPATH=manual/man man penstock-train\n"
      "  source manual/completions/penstock\n"
      "Debian's package of the program has both in their places.");
  command->callback([directory, &app] { write_manual(app, *directory); });
}

}  // namespace penstock
