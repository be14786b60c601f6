// The program's subcommands. It reports the errors that they throw. Exit codes: 0 done, 1 an error,
// 2 wrong usage, 130 interrupted (state saved). launcher.cpp loads it.
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>
#include <string>

#include "penstock/base/error.h"
#include "penstock/base/failure_text.h"
#include "penstock/base/joined.h"
#include "penstock/base/mapped_file_fault.h"
#include "penstock/cli/arguments/given_value.h"
#include "penstock/cli/arguments/utf8_words.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/error_text.h"
#include "penstock/cli/overview.h"
#include "penstock/cli/routers.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/tensor_memory.h"

namespace {

constexpr const char* kStart =
    "Start here:\n"
    "  penstock init\n"
    "  penstock data prepare --system --out corpus\n"
    "  penstock train recipes/demo/remoe.toml --set data.corpus=corpus --out runs/remoe\n"
    "  penstock eval runs/remoe --data corpus\n"
    "  penstock generate runs/remoe --prompt 'The '\n"
    "  penstock finetune runs/remoe --data sst2 --out runs/sst2   # files: docs/finetune.md\n"
    "  penstock study recipes/demo/study.toml --set data.corpus=corpus\n"
    "Every subcommand has --help with examples.";

void add_commands(CLI::App& app, int& exit_code) {
  penstock::add_init_command(app);
  penstock::add_data_command(app);
  penstock::add_train_command(app, exit_code);
  penstock::add_upcycle_command(app);
  penstock::add_doctor_command(app, exit_code);
  penstock::add_eval_command(app);
  penstock::add_generate_command(app, exit_code);
  penstock::add_serve_command(app, exit_code);
  penstock::add_view_command(app, exit_code);
  penstock::add_analyse_command(app);
  penstock::add_trace_command(app);
  penstock::add_finetune_command(app, exit_code);
  penstock::add_handoff_command(app);
  penstock::add_export_command(app);
  penstock::add_study_command(app, exit_code);
  penstock::add_report_command(app);
  penstock::add_info_command(app);
  penstock::add_bench_command(app);
  penstock::add_routers_command(app);
  penstock::add_tokenize_command(app);
  penstock::add_manual_command(app);
}

/// Whether the command line ends before the subcommand that it needs.
bool lacks_subcommand(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  if (!parsed.empty()) return lacks_subcommand(*parsed.front());
  return !app.get_subcommands([](const CLI::App*) { return true; }).empty();
}

/// The exit code for what CLI11 throws instead of running a command: help, the version, wrong
/// usage.
int end_of_parsing(const CLI::App& app, const CLI::ParseError& error) {
  const bool help = dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr;
  // An unknown word is an error, even with --help.
  if (help || lacks_subcommand(app))
    for (const auto& word : app.remaining(true)) {
      if (word.starts_with('-')) continue;
      std::fprintf(stderr, "'%s' is no command; run with --help alone for those there are\n",
                   word.c_str());
      return 2;
    }
  if (help) return app.exit(error);
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) {  // CLI11 tells the words in reverse
    std::fprintf(stderr,
                 "'%s' is nothing that this command takes; run with --help for what it takes\n",
                 penstock::joined(app.remaining(true), " ").c_str());
    return 2;
  }
  return app.exit(error) == 0 ? 0 : 2;
}

/// Prints an exception that is no Error: memory ran out, or the program has a bug.
void tell_unexpected(const std::exception& error) {
  const bool memory = penstock::memory_ran_out(error);
  std::fprintf(stderr, "penstock: %s%s%s\n",
               memory ? "" : "internal error: ", penstock::failure_text(error).c_str(),
               memory ? "; `penstock info RECIPE` says how much training takes" : "");
}

int run(int argc, char** argv) {
  ::prctl(PR_SET_NAME, "penstock");  // `ps` would call a rank "exe", after /proc/self/exe
  penstock::name_files_that_cannot_be_read();
  penstock::ops::keep_freed_memory();
  penstock::ops::align_tensors_in_malloc();
  CLI::App app(
      "Train, evaluate, fine-tune and compare Mixture-of-Experts language models with any router.",
      "penstock");
  app.require_subcommand(1);
  app.set_version_flag("--version", PENSTOCK_VERSION);
  app.footer(kStart);
  const std::span<const char* const> words(argv, static_cast<std::size_t>(argc));
  int exit_code = 0;
  add_commands(app, exit_code);
  penstock::refuse_empty_values(app);
  try {
    penstock::check_words_are_utf8(words);
    penstock::refuse_empty_values(words);
    if (argc == 1 && ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO)) {
      std::fputs(penstock::overview(".").c_str(), stdout);
      return 0;
    }
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_of_parsing(app, error);
  } catch (const penstock::Error& error) {
    const std::string text = penstock::error_text(error.what(), app, words);
    std::fprintf(stderr, "penstock: %s\n", text.c_str());
    return 1;
  } catch (const std::filesystem::filesystem_error& error) {
    std::fprintf(stderr, "penstock: %s: cannot be read or written there: %s\n",
                 error.path1().c_str(), error.code().message().c_str());
    return 1;
  } catch (const std::exception& error) {
    if (!std::ferror(stdout)) tell_unexpected(error);  // else with_output_checked() says so
    return 1;
  }
  return exit_code;
}

}  // namespace

/// The function that the launcher calls.
extern "C" int penstock_main(int argc, char** argv) { return run(argc, argv); }
